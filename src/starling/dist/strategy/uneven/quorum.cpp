#include "starling/dist/strategy/uneven/quorum.h"

#include <algorithm>

#include "starling/base/error.h"

namespace starling::dist {

Quorum::Quorum(int needed, int workers)
    : needed_(needed), in_(static_cast<std::size_t>(workers)), weights_(static_cast<std::size_t>(workers)) {
  check(needed >= 1 && needed <= workers, "[quorum] expected 1 to {} workers to wait for, got {}", workers, needed);
}

Quorum::Verdict Quorum::add(int worker, std::int64_t step, double weight) {
  check(step <= open_, "[quorum] expected a gradient of step {} at most from rank {}, got one of step {}", open_,
        worker, step);
  const auto at = static_cast<std::size_t>(worker);
  if (step == open_ && in_[at]) return Verdict::repeated;
  if (step < open_ || enough()) return Verdict::late;
  in_[at] = true;
  weights_[at] = weight;
  total_ += weight;
  ++count_;
  return Verdict::counted;
}

bool Quorum::enough() const { return (count_ >= needed_ && total_ > 0) || count_ == static_cast<int>(in_.size()); }

std::vector<int> Quorum::contributors() const {
  std::vector<int> list;
  for (std::size_t i = 0; i < in_.size(); ++i) {
    if (in_[i]) list.push_back(static_cast<int>(i));
  }
  return list;
}

void Quorum::next(std::int64_t step) {
  open_ = step;
  std::fill(in_.begin(), in_.end(), false);
  std::fill(weights_.begin(), weights_.end(), 0.0);
  count_ = 0;
  total_ = 0;
}

}  // namespace starling::dist
