// Partner of bench/compare_comm.py: one rank of a library that sums float32 over ranks. Every rank reads lines
// `bytes repetitions` from a pipe of its own, so that it sleeps while others are measured; rank 0 answers each with
// the seconds of one all-reduce, averaged over the repetitions.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>

namespace bench {

class Contender {
 public:
  virtual ~Contender() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void open(std::int64_t count) = 0;  // makes buffers
  virtual float* input() = 0;
  virtual float* output() = 0;    // may be the input
  virtual void all_reduce() = 0;  // sums the buffers of all ranks
  virtual void barrier() = 0;
  virtual void close() = 0;
};

// --name value …
class Arguments {
 public:
  Arguments(int count, char** words) {
    for (int i = 1; i + 1 < count; i += 2) values_[words[i]] = words[i + 1];
  }
  std::string text(const std::string& name) const {
    const auto found = values_.find("--" + name);
    return found == values_.end() ? "" : found->second;
  }
  int number(const std::string& name) const { return std::stoi(text(name)); }

 private:
  std::map<std::string, std::string> values_;
};

inline bool right(Contender& contender, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) contender.input()[i] = static_cast<float>(i % 100 + contender.rank());
  contender.all_reduce();
  const int p = contender.size();
  bool right = true;
  for (std::int64_t i = 0; i < count; ++i) {
    right = right && contender.output()[i] == static_cast<float>(i % 100 * p + p * (p - 1) / 2);
  }
  for (std::int64_t i = 0; i < count; ++i) contender.input()[i] = 0;
  return right;
}

inline double seconds_of_one(Contender& contender, int repetitions) {
  for (int i = 0; i < 2 + repetitions / 10; ++i) contender.all_reduce();
  contender.barrier();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repetitions; ++i) contender.all_reduce();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / repetitions;
}

// Until the pipe is closed. Exit code of the program.
inline int serve(Contender& contender, const std::string& folder) {
  std::ifstream requests(folder + "/" + std::to_string(contender.rank()));
  std::int64_t bytes = 0;
  int repetitions = 0;
  while (requests >> bytes >> repetitions) {
    const std::int64_t count = bytes / 4;
    contender.open(count);
    const bool sums = right(contender, count);
    const double seconds = seconds_of_one(contender, repetitions);
    contender.close();
    if (!sums) {
      std::fprintf(stderr, "rank %d: wrong sums of %lld bytes\n", contender.rank(), static_cast<long long>(bytes));
      return 1;
    }
    if (contender.rank() == 0) {
      std::printf("%.9g\n", seconds);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace bench
