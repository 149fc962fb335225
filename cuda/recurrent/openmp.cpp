// Recurrent networks on the processor, from the formula to threads: a ladder whose rungs have one idea each.

#include <math.h>
#ifdef __linux__
#include <sched.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#else  // a compiler without OpenMP skips its pragmas, and this is a program of one thread
static int omp_get_thread_num() { return 0; }
#endif

#include "recurrent/packed.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT const int width = WIDTH;

// [formula] The loops of the formula, number by number. Weights are not packed.
static real sum(const real* weights, const real* bias, const real* from, int64_t size, int64_t row) {
    real total = bias[row];
    for (int64_t k = 0; k < size; k++) {
        total += weights[row * size + k] * from[k];
    }
    return total;
}

static real logistic(real x) { return 1 / (1 + exp(-x)); }

EXPORT void formula(const Layer& layer) {
    const int64_t hidden = layer.hidden;
    for (int i = 0; i < layer.steps; i++) {
        const int64_t t = layer.reverse ? layer.steps - 1 - i : i;
        for (int64_t b = 0; b < layer.batch; b++) {
            if (!layer.within(b, t)) {
                continue;
            }
            const real *x = layer.x + (t * layer.batch + b) * layer.inputs, *h = layer.before(b, t);
            for (int64_t j = 0; j < hidden; j++) {
                auto from_x = [&](int gate) {
                    return sum(layer.weights_ih, layer.bias_ih, x, layer.inputs, gate * hidden + j);
                };
                auto from_h = [&](int gate) {
                    return sum(layer.weights_hh, layer.bias_hh, h, hidden, gate * hidden + j);
                };
                real& y = layer.y[(t * layer.batch + b) * hidden + j];
                if (layer.cell == LSTM) {
                    real &c = layer.c[b * hidden + j], in = logistic(from_x(0) + from_h(0));
                    c = logistic(from_x(1) + from_h(1)) * c + in * tanh(from_x(2) + from_h(2));
                    y = logistic(from_x(3) + from_h(3)) * tanh(c);
                } else if (layer.cell == GRU) {
                    real r = logistic(from_x(0) + from_h(0)), z = logistic(from_x(1) + from_h(1));
                    y = (1 - z) * tanh(from_x(2) + r * from_h(2)) + z * h[j];
                } else {
                    real a = from_x(0) + from_h(0);
                    y = layer.cell == TANH ? tanh(a) : a < 0 ? 0 : a;
                }
                if (t == layer.last(b)) {
                    layer.end_h[b * hidden + j] = y;
                }
            }
        }
    }
}

// [packed] One thread; weights packed for the registers, and the product with the inputs of all steps taken out.
static void run(const Layer& layer, Part part) {
    product(layer, part, 0, layer.steps);
    for (int i = 0; i < layer.steps; i++) {
        step(layer, part, i);
    }
}

EXPORT void packed(const Layer& layer) { run(layer, whole(layer)); }

// [team] The threads, and how they share the work. cpus: the processor of each thread, or null.
struct Team {
    int64_t threads, groups, dynamic;
    const int64_t* cpus;
};

// [affinity] A thread is bound to its processor as long as this lives. The clause proc_bind of OpenMP does nothing
// unless OMP_PLACES was set before the process began.
struct Bound {
#ifdef __linux__
    cpu_set_t before;
    bool done;
    Bound(const Team& team, int thread) : done(team.cpus && !sched_getaffinity(0, sizeof before, &before)) {
        if (done) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(team.cpus[thread], &one);
            sched_setaffinity(0, sizeof one, &one);
        }
    }
    ~Bound() {
        if (done) {
            sched_setaffinity(0, sizeof before, &before);
        }
    }
#else
    Bound(const Team&, int) {}
#endif
};

// [schedule] All threads of a team call this together: n things in each of some groups. static: each thread has the same
// chunk at every step, and a group as many threads as another. dynamic: chunks are as small as they can be, and the next
// one is for whoever is free.
template <class Work>
static void share(const Team& team, int groups, int n, int smallest, Work work) {
    const int each = team.dynamic ? (n + smallest - 1) / smallest : team.threads / groups;
    auto run = [&](int i) {
        auto start = [&](int chunk) { return int(int64_t(n) * chunk / each); };
        work(i / each, start(i % each), start(i % each + 1));
    };
    if (team.dynamic) {
#pragma omp for schedule(dynamic) nowait
        for (int i = 0; i < groups * each; i++) {
            run(i);
        }
    } else {
#pragma omp for schedule(static, 1) nowait
        for (int i = 0; i < groups * each; i++) {
            run(i);
        }
    }
}

// [units] Threads own blocks of units, and with them their weights: each core's cache holds its own. A unit needs h of
// all others, so all threads meet at a barrier after each step. Of several groups each has its own sequences.
static void units(const Layer& layer, const Team& team, int groups) {
#pragma omp parallel num_threads(team.threads)
    {
        Bound bound(team, omp_get_thread_num());
        for (int i = -1; i < layer.steps; i++) {
            share(team, groups, blocks_of(layer), 1, [&](int group, int first, int last) {
                auto start = [&](int of) { return int(layer.batch * of / groups); };
                Part own = {first, last, start(group), start(group + 1)};
                return i < 0 ? product(layer, own, 0, layer.steps) : step(layer, own, i);
            });
#pragma omp barrier
        }
    }
}

EXPORT void units(const Layer& layer, const Team& team) { units(layer, team, 1); }

// [batch] Threads own sequences, which never wait for each other. Each core reads all weights.
EXPORT void batch(const Layer& layer, const Team& team) {
#pragma omp parallel num_threads(team.threads)
    {
        Bound bound(team, omp_get_thread_num());
        share(team, 1, layer.batch, ROWS, [&](int, int first, int last) {
            run(layer, {0, blocks_of(layer), first, last});
        });
    }
}

// [both] Groups of threads own sequences, and within a group each thread owns units. Still all are one team: OpenMP ends
// the threads that a smaller team has no use for, and starting them anew takes longer than a step.
EXPORT void both(const Layer& layer, const Team& team) { units(layer, team, team.groups); }

// [wavefront] Each layer is `lag` steps behind the one below it, and all of them share a barrier. So the product with
// the inputs is one of `lag` steps. Layers in two directions wait for each other's last step: there the two directions
// of a layer go side by side, with lag 0.
EXPORT void wavefront(const Layer* layers, int count, int lag, const Team& team) {
    const int steps = layers[0].steps;
#pragma omp parallel num_threads(team.threads)
    {
        Bound bound(team, omp_get_thread_num());
        for (int wave = -1; wave < steps + lag * (count - 1); wave++) {
            for (int l = 0; l < count; l++) {
                const Layer& layer = layers[l];
                const bool given = lag == 0 || l == 0;  // its inputs, before the first step
                const int i = wave - lag * l;
                share(team, 1, blocks_of(layer), 1, [&](int, int first, int last) {
                    const Part own = {first, last, 0, int(layer.batch)};
                    if (given && wave < 0) {
                        product(layer, own, 0, steps);
                    }
                    if (!given && i >= 0 && i < steps && i % lag == 0) {
                        product(layer, own, i, i + lag < steps ? i + lag : steps);
                    }
                    if (wave >= 0 && i >= 0 && i < steps) {
                        step(layer, own, i);
                    }
                });
            }
#pragma omp barrier
        }
    }
}
