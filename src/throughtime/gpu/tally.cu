// The end of an update: check that its loss and the norm of its gradient are finite, count it, and say what the
// gradient is clipped by and with which rate the optimiser steps.
//
// One warp does it all; torch would launch forty kernels, which take longer than a small model's backward pass.
//
// Constants from the host: WARPS.

struct Tally {
    const float* total;      // the loss
    const float* norms;      // [many], of the gradient of each weight
    const long long* count;  // of its targets
    const float* rate;       // of the schedule
    double* totals;          // [2], losses since the last report and in the epoch
    double* gradients;       // [2], the sum of norms, and how many were clipped
    long long* updates;
    long long* last_skip;    // the number of the last update that was skipped
    long long* skipped;      // [4], updates in the run and since the last report; targets since then and in the epoch
    float* rate_factor;      // each skipped update halves it
    char* stepped;           // whether this update is not skipped
    float* stopped;          // the opposite, as an optimiser reads it
    float* clipping;         // the factor of the gradient
    float* stepping;         // the rate of this update
    long long many;
    float clip;
};

KERNEL tally(const Tally a) {
    float squares = 0.0f;
    for (int i = thread_number(); i < a.many; i += 32) squares += a.norms[i] * a.norms[i];
    UNROLL for (int distance = 16; distance > 0; distance /= 2) squares += across_lanes(squares, distance);
    if (thread_number() > 0) return;
    const float total = *a.total, norm = sqrtf(squares), clipping = 1.0f / norm * a.clip;
    *a.clipping = clipping < 1.0f ? clipping : 1.0f;
    *a.stepping = *a.rate_factor * *a.rate;
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
