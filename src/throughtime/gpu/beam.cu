// One step of a beam search: of all continuations of a sentence's rows, the best continue. A block owns a sentence.
//
// It computes what throughtime/search/beam.py defines, and like it adds up in double precision.
//
// Constants from the host: WARPS, SHARED_BYTES.

constexpr int THREADS = WARPS * 32, MAX_ROWS = 32;

enum Reach { NEXT, BOUND, ITSELF, ANY };  // the score that a row may reach: at its next token, at the greatest length,
                                          // at no further cost, or any

struct Beam {
    const float* values;      // [rows, count], what the likeliest continuations of each row gain
    const int* ids;           // [rows, count]
    const long long* length;  // []
    double* log_prob;         // [rows]: this and the next three describe the current rows
    char* live;
    long long* last;
    long long* came_from;
    double* best;        // [sentences, results], falling
    char* tokens;        // [steps, rows], long: this and the next four are the history, in steps of `pitch` bytes
    char* parents;       // long
    char* log_probs;     // double
    char* ended;
    char* lived;
    long long* reached;  // the number of tokens after which a row lived; in memory of the host
    double penalty;      // the power of the length that scores are divided by
    double bound;        // the divisor at the greatest length
    long long pitch, end;  // the token that ends a result, or -1
    int width, count, results, reach, alone;  // no more results than rows of a sentence
};

struct Shared {  // the divisors of scores after this step and the next one
    double total[MAX_ROWS * MAX_ROWS], score[MAX_ROWS], ceiling[MAX_ROWS], best[MAX_ROWS], divisors[2];
    int chosen[MAX_ROWS];
};
static_assert(sizeof(Shared) == SHARED_BYTES, "the host and the kernel disagree about shared memory");

// NaN comes first, and among equals the earlier one.
INLINE bool precedes(double a, int i, double b, int j) {
    const bool odd_a = a != a, odd_b = b != b;
    if (odd_a || odd_b) return odd_a && (!odd_b || i < j);
    return a > b || (a == b && i < j);
}

KERNEL beam(const Beam a) {
    Shared& shared = *reinterpret_cast<Shared*>(shared_bytes());
    const double nothing = -static_cast<double>(as_float(0x7f800000u));
    const int mine = thread_number(), all = a.width * a.count;
    const long long first = block_number() * static_cast<long long>(a.width);
    const long long length = *a.length;
    for (int i = mine; i < all; i += THREADS)
        shared.total[i] = a.log_prob[first + i / a.count] + static_cast<double>(a.values[first * a.count + i]);
    const int late = mine - THREADS + 2;  // the last warp has least to do
    if (late >= 0) shared.divisors[late] = pow(static_cast<double>(length + 1 + late), a.penalty);
    if (mine < a.results) shared.best[mine] = a.best[block_number() * static_cast<long long>(a.results) + mine];
    join_block();
    for (int i = mine; i < all; i += THREADS) {
        int place = 0;
        for (int j = 0; j < all; ++j) place += precedes(shared.total[j], j, shared.total[i], i);
        if (place < a.width) shared.chosen[place] = i;
    }
    join_block();
    const bool within = mine < a.width;
    const int candidate = within ? shared.chosen[mine] : 0;
    const double total = shared.total[candidate];
    const long long token = a.ids[first * a.count + candidate];
    const bool possible = within && total > nothing, over = possible && token == a.end;
    const double score = total / shared.divisors[0];
    double ceiling = 0.0;
    if (a.reach == NEXT) ceiling = total / shared.divisors[1];
    if (a.reach == BOUND) ceiling = total / a.bound;
    if (a.reach == ITSELF) ceiling = total;
    if (within) shared.score[mine] = over ? score : nothing, shared.ceiling[mine] = possible && !over ? ceiling : nothing;
    join_block();
    if (mine == 0)  // few numbers: the best results stay in falling order
        for (int i = 0; i < a.width; ++i) {
            double entering = shared.score[i];
            for (int j = 0; j < a.results; ++j)
                if (entering > shared.best[j]) {
                    const double leaving = shared.best[j];
                    shared.best[j] = entering, entering = leaving;
                }
        }
    join_block();
    if (mine >= MAX_ROWS) return;
    if (!a.alone)
        for (int i = 0; i < a.width; ++i) ceiling = shared.ceiling[i] > ceiling ? shared.ceiling[i] : ceiling;
    const double least = shared.best[a.results - 1];
    const bool going_on = possible && !over && ceiling > least;
    if (in_any_lane(going_on) && mine == 0) *a.reached = length + 1;  // the same number from every block
    if (!within) return;
    const long long row = first + mine, parent = first + candidate / a.count;
    const auto note = [&](char* history, auto value) {
        reinterpret_cast<decltype(value)*>(history + length * a.pitch)[row] = value;
    };
    note(a.tokens, token), note(a.parents, parent), note(a.log_probs, total);
    note(a.ended, over && score >= least), note(a.lived, going_on);
    a.last[row] = token, a.came_from[row] = parent, a.live[row] = going_on;
    a.log_prob[row] = going_on ? total : nothing;
    if (mine < a.results) a.best[block_number() * static_cast<long long>(a.results) + mine] = shared.best[mine];
}
