// Cross-sections from resonances as poles in the complex plane, in the language that such codes use: complex numbers as
// structs with operators, structs by value and by reference, tables of structs.

#define MATERIALS 12
#define MOST_L 4  // values of the angular momentum

struct Complex {
    double re, im;
};

struct Pole {
    Complex position;                     // of the resonance
    Complex total, absorption, fission;   // residues
    int l;
};

struct Segment {
    double total, absorption, fission;  // fitted background
    int first, last;                    // its poles
};

struct Problem {
    int lookups, windows, most_poles, places, doppler;
    unsigned long long seed;
};

__device__ Complex operator+(const Complex& a, const Complex& b) {
    Complex c = {a.re + b.re, a.im + b.im};
    return c;
}
__device__ Complex operator-(const Complex& a, const Complex& b) { return Complex{a.re - b.re, a.im - b.im}; }
__device__ Complex operator*(const Complex& a, const Complex& b) {
    return Complex{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
__device__ Complex operator*(double a, Complex b) {
    b.re *= a;
    b.im *= a;
    return b;
}
__device__ Complex operator/(const Complex& a, const Complex& b) {
    double square = b.re * b.re + b.im * b.im;
    return Complex{(a.re * b.re + a.im * b.im) / square, (a.im * b.re - a.re * b.im) / square};
}

// The Faddeeva function w(z) = exp(-z^2) erfc(-iz): two terms far from 0; near it a sum over half a period of the
// Fourier series of exp(-t^2 / 4), good to five digits where im z > 0.
__device__ Complex faddeeva(Complex z) {
    const Complex i = {0, 1};
    if (z.re * z.re + z.im * z.im > 36) {
        const Complex one = {1, 0};
        Complex square = z * z;
        Complex far = 0.5124242247549740 * (one / (square - Complex{0.2752551286084110, 0}));
        return i * z * (far + 0.05176535902242900 * (one / (square - Complex{2.724744871391589, 0})));
    }
    const double period = 12;
    Complex phase = period * z;
    double fall = exp(-phase.im);
    Complex turn = {fall * cos(phase.re), fall * sin(phase.re)};  // exp(i period z)
    Complex sum = {0, 0};
    double sign = -1;
    Complex square = phase * phase;
    for (int n = 1; n <= 10; n++) {
        double step = n * 3.141592653589793;
        double weight = exp(-(step * step) / (period * period));
        Complex top = Complex{sign * turn.re - 1, sign * turn.im};
        sum = sum + weight * (top / (Complex{step * step, 0} - square));
        sign = -sign;
    }
    Complex first = Complex{1 - turn.re, -turn.im} / phase;
    return i * (first + 2.0 * (phase * sum));
}

// The phase of the potential scattering, a unit complex number for each l.
__device__ void phases(double root, const double* radius, Complex* factor) {
    for (int l = 0; l < MOST_L; l++) {
        double phi = radius[l] * root;
        switch (l) {
            case 0: break;
            case 1: phi -= atan(phi); break;
            case 2: phi -= atan(3 * phi / (3 - phi * phi)); break;
            default: phi -= atan(phi * (15 - phi * phi) / (15 - 6 * phi * phi)); break;
        }
        phi *= 2;
        factor[l] = Complex{cos(phi), -sin(phi)};
    }
}

__device__ void micro(double e, int nuclide, const Problem& in, const Segment* windows, const Pole* poles,
                      const double* radius, double* xs) {
    int at = (int)(e * in.windows);
    if (at == in.windows) at--;
    const Segment window = windows[nuclide * in.windows + at];
    Complex factor[MOST_L];
    phases(sqrt(e), &radius[nuclide * MOST_L], factor);
    double total = e * window.total, absorption = e * window.absorption, fission = e * window.fission;
    const double width = 8;  // of the Doppler broadening
    for (int i = window.first; i <= window.last; i++) {
        const Pole& pole = poles[nuclide * in.most_poles + i];
        Complex psi;
        if (in.doppler) {
            Complex z = width * (Complex{sqrt(e), 0} - pole.position);
            psi = (width / e) * faddeeva(z);
        } else {
            psi = Complex{0, 1} / (pole.position - Complex{sqrt(e), 0});
            psi = (1 / e) * psi;
        }
        total += (pole.total * psi * factor[pole.l]).re;
        absorption += (pole.absorption * psi).re;
        fission += (pole.fission * psi).re;
    }
    xs[0] = total;
    xs[1] = absorption;
    xs[2] = fission;
    xs[3] = total - absorption;
}

// thread -> one lookup; the tables are as in xsbench.cu, of poles and windows for each nuclide.
__global__ void lookup(
    const Problem in, const double* energy, const int* material, const int* count, const int* nuclide_of,
    const double* density, const Segment* windows, const Pole* poles, const double* radius, double* macro) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in.lookups) return;
    double sum[4] = {0}, xs[4];
    int m = material[i];
    for (int j = 0; j < count[m]; j++) {
        micro(energy[i], nuclide_of[m * in.places + j], in, windows, poles, radius, xs);
        for (int k = 0; k < 4; k++) sum[k] += xs[k] * density[m * in.places + j];
    }
    for (int k = 0; k < 4; k++) macro[4 * i + k] = sum[k];
}
