// The end of an update: check that its loss and the norm of its gradient are finite, and count it.
//
// One thread does it all; torch would launch thirty kernels, which take longer than a small model's backward pass.
//
// Constants from the host: WARPS.

struct Tally {
    const float* total;      // the loss
    const float* norm;       // of the gradient
    const long long* count;  // of its targets
    double* totals;          // [2], losses since the last report and in the epoch
    double* gradients;       // [2], the sum of norms, and how many were clipped
    long long* updates;
    long long* last_skip;    // the number of the last update that was skipped
    long long* skipped;      // [4], updates in the run and since the last report; targets since then and in the epoch
    float* rate_factor;      // each skipped update halves it
    char* stepped;           // whether this update is not skipped
    float* stopped;          // the opposite, as an optimiser reads it
    float clip;
};

KERNEL tally(const Tally a) {
    if (thread_number() > 0 || block_number() > 0) return;
    const float total = *a.total, norm = *a.norm;
    const bool finite = total - total == 0.0f && norm - norm == 0.0f;  // infinity less itself is NaN
    *a.stepped = finite;
    *a.stopped = finite ? 0.0f : 1.0f;
    if (finite) {
        a.totals[0] += total, a.totals[1] += total;
        a.gradients[0] += norm, a.gradients[1] += norm > a.clip;
    } else {
        *a.last_skip = *a.updates;
        *a.rate_factor *= 0.5f;
        a.skipped[0] += 1, a.skipped[1] += 1, a.skipped[2] += *a.count, a.skipped[3] += *a.count;
    }
    *a.updates += 1;
}
