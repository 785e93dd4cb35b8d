#pragma once

#include <cstdint>
#include <vector>

namespace starling::dist {

// Contributors to the open step, and the rule that closes it: as soon as `needed` distinct workers have contributed,
// one of them with data, or all have. Steps are numbered; one is open at a time.
class Quorum {
 public:
  Quorum(int needed, int workers);

  enum class Verdict {
    counted,
    late,     // step is closed, or has enough contributors
    repeated  // worker has already contributed to this step
  };
  // Records a contribution. Throws on a step that is not open yet.
  Verdict add(int worker, std::int64_t step, double weight);

  std::int64_t open() const { return open_; }
  bool enough() const;                    // true if the open step may close
  std::vector<int> contributors() const;  // to the open step, in rank order
  double weight(int worker) const { return weights_[static_cast<std::size_t>(worker)]; }
  double total() const { return total_; }  // total weight of the open step's contributors
  void next(std::int64_t step);            // opens `step`

  int needed() const { return needed_; }

 private:
  int needed_;
  std::int64_t open_ = 0;
  std::vector<bool> in_;
  std::vector<double> weights_;
  int count_ = 0;
  double total_ = 0;
};

}  // namespace starling::dist
