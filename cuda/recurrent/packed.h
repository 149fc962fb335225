// A layer's weights packed for the registers, the product with them, and a step of the recurrence.
#pragma once

#include "recurrent/vectors.h"

enum Cell { TANH, RELU, LSTM, GRU };

constexpr int gates(int cell) { return cell == LSTM ? 4 : cell == GRU ? 3 : 1; }

// [layer] One layer in one direction. Arrays are those of NumPy, row by row: x is (steps, batch, inputs), y (steps, batch,
// hidden), h and c (batch, hidden). c is replaced by its end, that of h is written to end_h.
struct Layer {
    int64_t cell, reverse, steps, batch, inputs, hidden;
    const real *x, *h, *weights_ih, *weights_hh, *bias_ih, *bias_hh;
    const int64_t* lengths;  // of the sequences, or null
    real *from_x, *y, *c, *end_h;

    int length(int b) const { return lengths ? lengths[b] : steps; }
    bool within(int b, int t) const { return t < length(b); }
    int first(int b) const { return reverse ? length(b) - 1 : 0; }
    int last(int b) const { return reverse ? 0 : length(b) - 1; }
    const real* before(int b, int t) const {  // h of the step before: it is y, and nowhere else
        return t == first(b) ? h + b * hidden : y + ((reverse ? t + 1 : t - 1) * batch + b) * hidden;
    }
};

// [panels] Units are packed in blocks of two vectors. A panel has the weights of one gate for one block: those of input
// 0, of input 1, ... in the order in which they are read, without a gap. Panels follow gate by gate, block by block;
// the last block is filled up with zeros.
constexpr int WIDTH = 2 * LANES;
constexpr int ROWS = ACCUMULATORS < 24 ? 6 : 8;  // inputs that a tile multiplies at once
constexpr int GROUP = 48;  // whose sums are held in the L1 cache
constexpr int PANELS = 6;  // at most, beside each other in it

constexpr int panels_of(int rows) { return 8 * rows <= ACCUMULATORS ? 4 : 4 * rows <= ACCUMULATORS ? 2 : 1; }

// [tile] The sums of `panels` panels for `rows` inputs stay in registers, while k passes over the inputs' numbers:
// two vectors of weights and `rows` numbers are read for 2 * rows multiplications. A sum has one order in every tile.
//
// The L3 cache is slow: a core waits for the weights that do not fit into its L2. So a whole tile asks for others ahead
// of time, `stride` numbers for each k: they are on their way while it multiplies.
template <int panels, int rows>
static void tile(
    const real* weights, const real* bias, int64_t size, const real* const* from, real* const* to, const real* ahead,
    int64_t stride
) {
    vector sum[panels][2][rows];
    const real* row[rows];
    for (int i = 0; i < rows; i++) {
        row[i] = from[i];
        for (int p = 0; p < panels; p++) {
            sum[p][0][i] = load(bias + p * WIDTH);
            sum[p][1][i] = load(bias + p * WIDTH + LANES);
        }
    }
    for (int64_t k = 0; k < size; k++, weights += WIDTH) {
        if constexpr (rows == ROWS) {
            __builtin_prefetch(ahead + k * stride, 0, 2);
            if (stride > LANES) {
                __builtin_prefetch(ahead + k * stride + LANES, 0, 2);
            }
        }
        for (int p = 0; p < panels; p++) {
            vector low = load(weights + p * size * WIDTH), high = load(weights + p * size * WIDTH + LANES);
            for (int i = 0; i < rows; i++) {
                sum[p][0][i] += low * row[i][k];
                sum[p][1][i] += high * row[i][k];
            }
        }
    }
    for (int i = 0; i < rows; i++) {
        for (int p = 0; p < panels; p++) {
            store(to[i] + p * WIDTH, sum[p][0][i]);
            store(to[i] + p * WIDTH + LANES, sum[p][1][i]);
        }
    }
}

// [tiles] The same with the panels that are left over by twos and ones, and tile after tile of inputs beside the same
// panels. Each of these tiles asks for its part of the panels that come next.
template <int panels, int rows>
static void tiles(
    const real* weights, const real* bias, int64_t size, int count, const real* const* from, real* const* to, int n
) {
    real* at[GROUP];
    int p = 0;
    for (; p + panels <= count; p += panels) {
        for (int i = 0; i < n; i++) {
            at[i] = to[i] + p * WIDTH;
        }
        for (int i = 0; i + rows <= n; i += rows) {
            const int64_t stride = panels * WIDTH / (n / rows);
            const real* next = weights + (p + panels) * size * WIDTH + i / rows * stride * size;
            tile<panels, rows>(weights + p * size * WIDTH, bias + p * WIDTH, size, from + i, at + i, next, stride);
        }
    }
    if constexpr (panels > 1) {
        if (p < count) {
            for (int i = 0; i < n; i++) {
                at[i] = to[i] + p * WIDTH;
            }
            tiles<panels / 2, rows>(weights + p * size * WIDTH, bias + p * WIDTH, size, count - p, from, at, n);
        }
    }
}

// [multiply] to[i] = bias + weights * from[i], for `count` panels and n inputs: whole tiles, then one of the rest.
static void multiply(
    const real* weights, const real* bias, int64_t size, int count, const real* const* from, real* const* to, int n
) {
    int whole = n - n % ROWS;
    tiles<panels_of(ROWS), ROWS>(weights, bias, size, count, from, to, whole);
    from += whole, to += whole;
    switch (n - whole) {
        case 1: return tiles<panels_of(1), 1>(weights, bias, size, count, from, to, 1);
        case 2: return tiles<panels_of(2), 2>(weights, bias, size, count, from, to, 2);
        case 3: return tiles<panels_of(3), 3>(weights, bias, size, count, from, to, 3);
        case 4: return tiles<panels_of(4), 4>(weights, bias, size, count, from, to, 4);
        case 5: return tiles<panels_of(5), 5>(weights, bias, size, count, from, to, 5);
        case 6: return tiles<panels_of(6), 6>(weights, bias, size, count, from, to, 6);
        case 7: return tiles<panels_of(7), 7>(weights, bias, size, count, from, to, 7);
    }
}

// [part] What a thread computes: some blocks of units, for some sequences.
struct Part {
    int first_block, last_block, first, last;
};

static int blocks_of(const Layer& layer) { return (layer.hidden + WIDTH - 1) / WIDTH; }

static Part whole(const Layer& layer) { return {0, blocks_of(layer), 0, int(layer.batch)}; }

// [product] from_x = W_ih x + b_ih, for the rows (t, b) of some steps: they do not wait for each other.
static void product(const Layer& layer, Part part, int first_step, int last_step) {
    const int each = gates(layer.cell), sequences = part.last - part.first, at_once = PANELS / each;
    const int64_t row_size = int64_t(blocks_of(layer)) * each * WIDTH;
    for (int64_t i = int64_t(first_step) * sequences; i < int64_t(last_step) * sequences; i += GROUP) {
        const int64_t rest = int64_t(last_step) * sequences - i;
        const int n = rest < GROUP ? rest : GROUP;
        const real* from[GROUP];
        real* to[GROUP];
        for (int block = part.first_block; block < part.last_block; block += at_once) {
            const int64_t panel = int64_t(block) * each;
            const int count = (block + at_once < part.last_block ? at_once : part.last_block - block) * each;
            for (int j = 0; j < n; j++) {
                const int64_t row = (i + j) / sequences * layer.batch + part.first + (i + j) % sequences;
                from[j] = layer.x + row * layer.inputs;
                to[j] = layer.from_x + row * row_size + panel * WIDTH;
            }
            const real* weights = layer.weights_ih + panel * layer.inputs * WIDTH;
            multiply(weights, layer.bias_ih + panel * WIDTH, layer.inputs, count, from, to, n);
        }
    }
}

// [cell] The gates of a block of units, from their sums; count: the units that there are, the others are filling.
template <int cell>
static void activate(const real* from_x, const real* from_h, const real* before, real* c, real* y, int count) {
    for (int at = 0; at < WIDTH && at < count; at += LANES) {
        auto x = [&](int gate) { return load(from_x + gate * WIDTH + at); };
        auto h = [&](int gate) { return load(from_h + gate * WIDTH + at); };
        if constexpr (cell == TANH) {
            store(y + at, hyperbolic(x(0) + h(0)), count - at);
        } else if constexpr (cell == RELU) {
            vector a = x(0) + h(0);
            store(y + at, a < 0 ? vector{} : a, count - at);
        } else if constexpr (cell == LSTM) {
            vector i = sigmoid(x(0) + h(0)), f = sigmoid(x(1) + h(1)), g = hyperbolic(x(2) + h(2));
            vector next = f * load(c + at, count - at) + i * g;
            store(c + at, next, count - at);
            store(y + at, sigmoid(x(3) + h(3)) * hyperbolic(next), count - at);
        } else {
            vector r = sigmoid(x(0) + h(0)), z = sigmoid(x(1) + h(1)), n = hyperbolic(x(2) + r * h(2));
            store(y + at, (1 - z) * n + z * load(before + at, count - at), count - at);
        }
    }
}

// [step] One step of a part: the products with h, group by group of those sequences that have not ended, and the cell.
// Each step takes the blocks in the other direction than the one before, and so begins with those still in the cache.
template <int cell>
static void step(const Layer& layer, Part part, int t) {
    constexpr int each = gates(cell), at_once = PANELS / each;
    const int64_t row_size = int64_t(blocks_of(layer)) * each * WIDTH;
    alignas(64) real sums[GROUP][PANELS * WIDTH];
    const real* from[GROUP];
    real* to[GROUP];
    int sequence[GROUP];
    for (int b = part.first; b < part.last;) {
        int n = 0;
        for (; b < part.last && n < GROUP; b++) {
            if (layer.within(b, t)) {
                sequence[n] = b, from[n] = layer.before(b, t), to[n] = sums[n];
                n++;
            }
        }
        const int turns = (part.last_block - part.first_block + at_once - 1) / at_once;
        for (int turn = 0; turn < turns; turn++) {
            const int block = part.first_block + (t % 2 ? turns - 1 - turn : turn) * at_once;
            const int64_t panel = int64_t(block) * each;
            const int count = block + at_once < part.last_block ? at_once : part.last_block - block;
            const real* weights = layer.weights_hh + panel * layer.hidden * WIDTH;
            multiply(weights, layer.bias_hh + panel * WIDTH, layer.hidden, count * each, from, to, n);
            for (int i = 0; i < n; i++) {
                const int64_t row = t * layer.batch + sequence[i], state = sequence[i] * layer.hidden;
                const real* from_x = layer.from_x + row * row_size + panel * WIDTH;
                for (int j = 0; j < count; j++) {
                    const int unit = (block + j) * WIDTH, units = layer.hidden - unit;
                    real* y = layer.y + row * layer.hidden + unit;
                    real* c = cell == LSTM ? layer.c + state + unit : nullptr;
                    activate<cell>(
                        from_x + j * each * WIDTH, sums[i] + j * each * WIDTH, from[i] + unit, c, y, units
                    );
                    if (t == layer.last(sequence[i])) {
                        const int bytes = sizeof(real) * (units < WIDTH ? units : WIDTH);
                        __builtin_memcpy(layer.end_h + state + unit, y, bytes);
                    }
                }
            }
        }
    }
}

// The i-th step of a part, in the layer's direction.
static void step(const Layer& layer, Part part, int i) {
    const int t = layer.reverse ? layer.steps - 1 - i : i;
    switch (layer.cell) {
        case TANH: return step<TANH>(layer, part, t);
        case RELU: return step<RELU>(layer, part, t);
        case LSTM: return step<LSTM>(layer, part, t);
        case GRU: return step<GRU>(layer, part, t);
    }
}
