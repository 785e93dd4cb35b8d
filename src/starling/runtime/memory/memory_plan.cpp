#include "starling/runtime/memory/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace starling::runtime {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr int kRounds = 64;  // attempts to place the topmost buffers earlier

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// True if all uses of `a` have ended when `b` begins.
bool before(const BufferUse& a, const BufferUse& b) {
  if (a.born.empty()) return a.last < b.first;
  for (std::size_t lane = 0; lane < a.ended.size(); ++lane) {
    if (a.ended[lane] > b.born[lane]) return false;
  }
  return true;
}

using Order = std::vector<std::size_t>;
enum class Fit { lowest, tightest };

class Planner {
 public:
  explicit Planner(const std::vector<BufferUse>& uses) : uses_(uses), rivals_(uses.size()) {
    for (std::size_t a = 0; a < uses.size(); ++a) {
      bytes_.push_back(aligned(uses[a].bytes));
      for (std::size_t b = 0; b < a; ++b) {
        if (!in_use_together(uses[a], uses[b])) continue;
        rivals_[a].push_back(b);
        rivals_[b].push_back(a);
      }
    }
  }

  MemoryPlan run() {
    goal_ = peak_demand(uses_);
    for (const Order& order : orders()) {
      for (Fit fit : {Fit::lowest, Fit::tightest}) {
        consider(order, fit);
        if (best_.arena_bytes == goal_) return std::move(best_);
      }
    }
    for (int round = 0; round < kRounds && best_.arena_bytes > goal_; ++round) {
      if (!consider(top_first(round), best_fit_)) ++failures_;
      if (failures_ > kRounds / 4) break;
    }
    return std::move(best_);
  }

 private:
  template <class Key>
  Order sorted(Key key) const {
    Order order(uses_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return key(a) > key(b); });
    return order;
  }

  std::vector<Order> orders() const {
    const auto life = [&](std::size_t i) { return static_cast<std::size_t>(uses_[i].last - uses_[i].first) + 1; };
    return {sorted([&](std::size_t i) { return bytes_[i]; }),
            sorted([&](std::size_t i) { return bytes_[i] * life(i); }),
            sorted([&](std::size_t i) { return std::pair(life(i), bytes_[i]); }),
            sorted([&](std::size_t i) { return std::pair(-uses_[i].first, bytes_[i]); })};
  }

  // The best order so far with the topmost buffers of its plan moved to the front; later rounds include those below.
  Order top_first(int round) const {
    const std::size_t reach =
        best_.arena_bytes - best_.arena_bytes / 64 * static_cast<std::size_t>(failures_ + round % 2);
    Order order = best_order_;
    std::stable_partition(order.begin(), order.end(),
                          [&](std::size_t i) { return best_.offsets[i] + bytes_[i] >= reach; });
    return order;
  }

  bool consider(const Order& order, Fit fit) {
    MemoryPlan plan = place(order, fit);
    if (!best_order_.empty() && plan.arena_bytes >= best_.arena_bytes) return false;
    best_ = std::move(plan);
    best_order_ = order;
    best_fit_ = fit;
    return true;
  }

  MemoryPlan place(const Order& order, Fit fit) const {
    MemoryPlan plan{std::vector<std::size_t>(uses_.size()), 0};
    std::vector<bool> placed(uses_.size());
    std::vector<std::pair<std::size_t, std::size_t>> taken;  // begin and end of buffers in use at the same time
    for (std::size_t i : order) {
      taken.clear();
      for (std::size_t other : rivals_[i]) {
        if (placed[other] && bytes_[other] > 0)
          taken.emplace_back(plan.offsets[other], plan.offsets[other] + bytes_[other]);
      }
      std::sort(taken.begin(), taken.end());
      plan.offsets[i] = gap(taken, bytes_[i], fit);
      plan.arena_bytes = std::max(plan.arena_bytes, plan.offsets[i] + bytes_[i]);
      placed[i] = true;
    }
    return plan;
  }

  static std::size_t gap(const std::vector<std::pair<std::size_t, std::size_t>>& taken, std::size_t bytes, Fit fit) {
    std::size_t end = 0, best = 0, spare = static_cast<std::size_t>(-1);
    for (const auto& [from, to] : taken) {
      if (from >= end + bytes && from - end - bytes < spare) {
        if (fit == Fit::lowest) return end;
        best = end;
        spare = from - end - bytes;
      }
      end = std::max(end, to);
    }
    return spare == static_cast<std::size_t>(-1) ? end : best;
  }

  const std::vector<BufferUse>& uses_;
  std::vector<std::vector<std::size_t>> rivals_;
  std::vector<std::size_t> bytes_;
  std::size_t goal_ = 0;
  MemoryPlan best_;
  Order best_order_;
  Fit best_fit_ = Fit::lowest;
  int failures_ = 0;
};

}  // namespace

bool in_use_together(const BufferUse& a, const BufferUse& b) { return !before(a, b) && !before(b, a); }

MemoryPlan plan_memory(const std::vector<BufferUse>& uses) { return Planner(uses).run(); }

std::size_t peak_demand(const std::vector<BufferUse>& uses) {
  std::vector<std::pair<int, std::ptrdiff_t>> changes;
  for (const auto& use : uses) {
    const auto bytes = static_cast<std::ptrdiff_t>(aligned(use.bytes));
    changes.emplace_back(use.first, bytes);
    changes.emplace_back(use.last + 1, -bytes);
  }
  std::sort(changes.begin(), changes.end());  // ends (negative) sort before begins
  std::ptrdiff_t live = 0, peak = 0;
  for (const auto& [step, change] : changes) peak = std::max(peak, live += change);
  return static_cast<std::size_t>(peak);
}

}  // namespace starling::runtime
