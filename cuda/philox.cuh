// Random numbers without memory: Philox 4x32-10, ten rounds of multiplications that scramble a counter by a key. The same
// counter and key give the same four words anywhere and at any time, so a mask can be made again in place of being stored.
// Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

struct Words {
    unsigned at[4];
};

__device__ inline Words philox(unsigned long long key, unsigned long long low, unsigned long long high) {
    unsigned k0 = key, k1 = key >> 32, c0 = low, c1 = low >> 32, c2 = high, c3 = high >> 32;
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        unsigned long long a = 0xD2511F53ull * c0, b = 0xCD9E8D57ull * c2;
        c0 = unsigned(b >> 32) ^ c1 ^ k0;
        c1 = unsigned(b);
        c2 = unsigned(a >> 32) ^ c3 ^ k1;
        c3 = unsigned(a);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}
