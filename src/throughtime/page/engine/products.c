// W x + b for every row x, by instructions for four numbers at once; `make wasm` compiles this to products.wasm.

typedef float four __attribute__((vector_size(16), aligned(4)));

#define INLINE static inline __attribute__((always_inline))
#define ALL _Pragma("clang loop unroll(full)")
#define ONE_BY_ONE _Pragma("clang loop unroll(disable)")

// A block of the product: R rows of x and O rows of w.
INLINE void block(const float *x, const float *w, const float *b, float *out, int inner, int outputs, const int R,
                  const int O) {
  four sums[4][4];
  ALL for (int r = 0; r < R; r++)
    ALL for (int o = 0; o < O; o++) sums[r][o] = (four){0, 0, 0, 0};
  int k = 0;
  ONE_BY_ONE for (; k + 4 <= inner; k += 4) {
    four weights[4];
    ALL for (int o = 0; o < O; o++) weights[o] = *(const four *)(w + o * inner + k);
    ALL for (int r = 0; r < R; r++) {
      four given = *(const four *)(x + r * inner + k);
      ALL for (int o = 0; o < O; o++) sums[r][o] += given * weights[o];
    }
  }
  ALL for (int r = 0; r < R; r++) {
    ALL for (int o = 0; o < O; o++) {
      four s = sums[r][o];
      float sum = (s[0] + s[1]) + (s[2] + s[3]);
      ONE_BY_ONE for (int rest = k; rest < inner; rest++) sum += x[r * inner + rest] * w[o * inner + rest];
      out[r * outputs + o] = b ? sum + b[o] : sum;
    }
  }
}

// Some rows of x with all rows of w.
INLINE void strip(const float *x, const float *w, const float *b, float *out, int inner, int outputs, const int R) {
  const int wide = R > 2 ? 2 : 4;
  int o = 0;
  for (; o + wide <= outputs; o += wide) block(x, w + o * inner, b ? b + o : 0, out + o, inner, outputs, R, wide);
  for (; o < outputs; o++) block(x, w + o * inner, b ? b + o : 0, out + o, inner, outputs, R, 1);
}

// x [rows, inner], w [outputs, inner], b [outputs] or null: out [rows, outputs].
__attribute__((export_name("linear"))) void linear(const float *x, const float *w, const float *b, float *out, int rows,
                                                   int inner, int outputs) {
  for (; rows >= 4; rows -= 4, x += 4 * inner, out += 4 * outputs) strip(x, w, b, out, inner, outputs, 4);
  if (rows == 3) strip(x, w, b, out, inner, outputs, 3);
  if (rows == 2) strip(x, w, b, out, inner, outputs, 2);
  if (rows == 1) strip(x, w, b, out, inner, outputs, 1);
}
