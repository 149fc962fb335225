// A program for the thread sanitizer, below the text of openmp.cpp: every rung on small networks, on threads of POSIX.
// GCC's own runtime is not instrumented: the sanitizer does not see its barriers, and would report every step. So the
// calls that the compiler makes of the pragmas are defined here, with barriers that it knows.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

struct Crew {
    pthread_barrier_t barrier;
    int size;
    long next[4096];  // of each dynamic loop in its order: the first number that is not taken
};

struct Member {
    Crew* crew;
    int number, loop;  // the number of its next dynamic loop
    long stop;
    void (*run)(void*);
    void* data;
};

static thread_local Member* self = nullptr;

extern "C" int omp_get_thread_num() { return self ? self->number : 0; }
extern "C" int omp_get_num_threads() { return self ? self->crew->size : 1; }
extern "C" void GOMP_barrier() { pthread_barrier_wait(&self->crew->barrier); }
extern "C" void GOMP_loop_end_nowait() {}

static void* work(void* member) {
    Member* outer = self;
    self = (Member*)member;
    self->run(self->data);
    self = outer;
    return nullptr;
}

extern "C" void GOMP_parallel(void (*run)(void*), void* data, unsigned size, unsigned) {
    Crew* crew = (Crew*)calloc(1, sizeof(Crew));
    crew->size = size;
    pthread_barrier_init(&crew->barrier, nullptr, size);
    std::vector<Member> members(size);
    std::vector<pthread_t> threads(size);
    for (int i = size - 1; i >= 0; i--) {
        members[i] = {crew, i, 0, 0, run, data};
        i ? (void)pthread_create(&threads[i], nullptr, work, &members[i]) : (void)work(&members[i]);
    }
    for (int i = 1; i < (int)size; i++) {
        pthread_join(threads[i], nullptr);
    }
    pthread_barrier_destroy(&crew->barrier);
    free(crew);
}

// Relaxed: who takes which piece orders nothing else.
extern "C" bool GOMP_loop_nonmonotonic_dynamic_next(long* start, long* stop) {
    *start = __atomic_fetch_add(&self->crew->next[self->loop - 1], 1, __ATOMIC_RELAXED);
    *stop = *start + 1;
    return *start < self->stop;
}

extern "C" bool GOMP_loop_nonmonotonic_dynamic_start(long, long end, long, long, long* start, long* stop) {
    self->stop = end;
    self->loop++;
    return GOMP_loop_nonmonotonic_dynamic_next(start, stop);
}

static std::vector<real> some(size_t count) {
    std::vector<real> made(count);
    for (real& x : made) {
        x = rand() % 1000 / real(1000) - real(0.5);
    }
    return made;
}

struct Network {
    std::vector<real> x, h, w_ih, w_hh, b_ih, b_hh, from_x, y, c, end_h;
    Layer layer;
    Network(int64_t cell, int64_t reverse, const real* below, const int64_t* lengths) {
        const int64_t steps = 20, batch = 9, hidden = 3 * WIDTH + 5, units = 4 * WIDTH * gates(cell);
        x = some(steps * batch * hidden), h = some(batch * hidden), c = some(batch * hidden);
        w_ih = some(units * hidden), w_hh = some(units * hidden), b_ih = some(units), b_hh = some(units);
        from_x = some(steps * batch * units), y = some(steps * batch * hidden), end_h = some(batch * hidden);
        layer = {cell, reverse, steps, batch, hidden, hidden, below ? below : x.data(), h.data(), w_ih.data(),
                 w_hh.data(), b_ih.data(), b_hh.data(), lengths, from_x.data(), y.data(), c.data(), end_h.data()};
    }
};

int main() {
    const int64_t lengths[] = {20, 3, 1, 20, 7, 8, 9, 10, 11};
    for (int cell : std::vector<int>{TANH, RELU, LSTM, GRU}) {
        for (int how = 0; how < 4; how++) {
            const Team team = {4, 2, how & 1, nullptr};
            const int64_t* limits = how & 2 ? lengths : nullptr;
            Network one(cell, 0, nullptr, limits), two(cell, 1, nullptr, limits), three(cell, 0, one.y.data(), limits);
            units(one.layer, team);
            batch(one.layer, team);
            both(two.layer, team);
            const Layer layers[] = {one.layer, three.layer}, ways[] = {one.layer, two.layer};
            wavefront(layers, 2, 1 + how, team);
            wavefront(ways, 2, 0, team);
        }
    }
    puts("every rung ran");
}
