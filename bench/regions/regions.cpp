// Costs of a parallel region beside its work, ours and libgomp's in turn: one after another, and after pauses in
// which the threads may have gone to sleep.
//   bench_regions [--threads N] [--repeats N] [--work µs]

#include <fmt/core.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "starling/base/parallel.h"

namespace {

using Clock = std::chrono::steady_clock;

double micros(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

void work_for(double us) {
  const auto start = Clock::now();
  while (micros(Clock::now() - start) < us) {
  }
}

void region_ours(int threads, double us) {
  starling::parallel_run(threads, [=](int) { work_for(us); });
}

void region_gomp(int threads, double us) {
#pragma omp parallel num_threads(threads)
  work_for(us);
}

struct Cost {
  std::vector<double> us;
  double at(double share) {
    std::sort(us.begin(), us.end());
    return us[static_cast<std::size_t>(share * static_cast<double>(us.size() - 1))];
  }
};

// Several regions in a row, the last of which is counted; before the first a pause.
template <class Region>
double once(Region region, int threads, double us, double pause_us) {
  if (pause_us == 0) {
    for (int i = 0; i < 8; ++i) region(threads, us);
  } else if (pause_us < 1000) {
    region(threads, us);
    work_for(pause_us);
  } else {
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(pause_us));
  }
  const auto start = Clock::now();
  region(threads, us);
  return micros(Clock::now() - start) - us;
}

}  // namespace

int main(int argc, char** argv) {
  int threads = starling::num_threads(), repeats = 2000;
  double us = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--threads") threads = std::atoi(argv[i + 1]);
    if (name == "--repeats") repeats = std::atoi(argv[i + 1]);
    if (name == "--work") us = std::atof(argv[i + 1]);
  }
  const starling::ThreadScope scope(threads);
  fmt::print("{} threads, {} µs of work each; µs beside the work\n", threads, us);
  for (double pause_us : {0.0, 100.0, 10000.0}) {
    Cost ours, gomp;
    const int rounds = pause_us < 1000 ? repeats : repeats / 20;
    for (int i = 0; i < rounds; ++i) {
      ours.us.push_back(once(region_ours, threads, us, pause_us));
      if (pause_us == 0) continue;
      gomp.us.push_back(once(region_gomp, threads, us, pause_us));
    }
    // Hot regions of one kind at a time: the other's threads would still be spinning.
    for (int i = 0; pause_us == 0 && i < rounds; ++i) gomp.us.push_back(once(region_gomp, threads, us, pause_us));
    fmt::print(
        "after {:>6} µs: ours p10 {:7.2f} median {:7.2f} p90 {:8.2f}   libgomp p10 {:7.2f} median {:7.2f} p90 "
        "{:8.2f}\n",
        pause_us, ours.at(0.1), ours.at(0.5), ours.at(0.9), gomp.at(0.1), gomp.at(0.5), gomp.at(0.9));
  }
}
