// The GPU waits for some nanoseconds, so that work can be queued behind it.
extern "C" __global__ void spin(long long* ended, long long nanoseconds) {
    long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
    *ended = now;
}
