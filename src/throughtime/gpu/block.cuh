// What all threads of a block find together. Constant from the host: WARPS.

struct Highest {
    INLINE float operator()(float a, float b) const { return a > b || a != a ? a : b; }  // NaN stays NaN
};

struct Sum {
    INLINE float operator()(float a, float b) const { return a + b; }
};

// Of the values of all threads, which all find the same; they meet in shared memory, [WARPS].
template <typename Join> INLINE float over_block(float* meeting, float value, const Join& join) {
    UNROLL for (int distance = 16; distance > 0; distance /= 2) value = join(value, across_lanes(value, distance));
    join_block();  // what met here before has been read
    if (thread_number() % 32 == 0) meeting[thread_number() / 32] = value;
    join_block();
    value = meeting[0];
    UNROLL for (int warp = 1; warp < WARPS; ++warp) value = join(value, meeting[warp]);
    return value;
}
