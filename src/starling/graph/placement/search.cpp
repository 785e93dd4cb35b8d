#include "starling/graph/placement/search.h"

#include <algorithm>
#include <limits>
#include <random>

#include "starling/graph/placement/starts.h"

namespace starling::graph {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

struct Score {
  std::int64_t over = std::numeric_limits<std::int64_t>::max();
  double makespan = 0;
  bool better_than(const Score& other) const {
    if (over != other.over) return over < other.over;
    return makespan < other.makespan * (1 - 1e-9);
  }
};

// Local search: moves one group, one cluster or, in small graphs, two groups at a time while that helps.
class LocalSearch {
 public:
  LocalSearch(const TaskGraph& graph, const Simulator& simulator, const std::vector<std::vector<int>>& clusters)
      : graph_(graph), simulator_(simulator), clusters_(clusters) {
    constexpr int kMostWork = 2'000'000;  // budget of simulated tasks
    left_ = std::clamp(kMostWork / static_cast<int>(graph.tasks.size()), 60, 20'000);
    for (std::size_t g = 0; g < graph.groups.size(); ++g) {
      if (std::count(graph.groups[g].possible.begin(), graph.groups[g].possible.end(), true) > 1)
        movable_.push_back(static_cast<int>(g));
    }
    std::vector<double> seconds(graph.groups.size(), 0);
    for (std::size_t t = 0; t < graph.tasks.size(); ++t) seconds[at(graph.tasks[t].group)] += graph.seconds[t][0];
    std::stable_sort(movable_.begin(), movable_.end(), [&](int a, int b) { return seconds[at(a)] > seconds[at(b)]; });
  }

  std::vector<int> run(const std::vector<std::vector<int>>& starts) {
    constexpr std::size_t kSmall = 24;
    std::vector<std::pair<Score, std::vector<int>>> begun;
    for (const auto& start : starts) begun.emplace_back(score(start), start);
    std::stable_sort(begun.begin(), begun.end(),
                     [](const auto& a, const auto& b) { return a.first.better_than(b.first); });
    if (movable_.size() > kSmall) begun.resize(std::min<std::size_t>(begun.size(), 2));
    std::vector<int> best = begun[0].second;
    Score best_score = begun[0].first;
    for (auto& [start_score, start] : begun) {
      placed_ = start;
      score_ = start_score;
      climb();
      if (!score_.better_than(best_score)) continue;
      best = placed_;
      best_score = score_;
    }
    shake(best, best_score);
    return best;
  }

 private:
  // Random restarts: moves a few groups at random and searches again, to leave local minima. Repeats until the memory
  // suffices, and a few times more.
  void shake(std::vector<int>& best, Score& best_score) {
    constexpr int kTimes = 6, kMostTimes = 60;
    std::mt19937 random(1);  // fixed seed: deterministic placement
    for (int time = 0; time < kMostTimes && left_ > 0 && movable_.size() > 1; ++time) {
      if (time >= kTimes && best_score.over == 0) return;
      placed_ = best;
      for (std::size_t moved = 0; moved < 2 + movable_.size() / 4; ++moved) {
        const int g = movable_[random() % movable_.size()], d = static_cast<int>(random() % at(graph_.devices));
        if (may(g, d)) placed_[at(g)] = d;
      }
      score_ = score(placed_);
      climb();
      if (!score_.better_than(best_score)) continue;
      best = placed_;
      best_score = score_;
    }
  }

  Score score(const std::vector<int>& placed) {
    --left_;
    const Simulated simulated = simulator_.schedule(placed);
    return {simulated.over, simulated.makespan};
  }

  void climb() {
    constexpr std::size_t kFew = 10;
    bool better = true;
    while (better && left_ > 0) {
      better = move_clusters();
      better |= move_groups();
      if (!better && movable_.size() <= kFew) better = move_pairs();
    }
  }

  bool keep(const std::vector<int>& tried) {
    if (left_ <= 0) return false;
    const Score made = score(tried);
    if (!made.better_than(score_)) return false;
    placed_ = tried;
    score_ = made;
    return true;
  }

  bool may(int group, int device) const { return graph_.groups[at(group)].possible[at(device)]; }

  bool move_groups() {
    bool better = false;
    for (int g : movable_) {
      for (int d = 0; d < graph_.devices; ++d) {
        if (d == placed_[at(g)] || !may(g, d)) continue;
        auto tried = placed_;
        tried[at(g)] = d;
        better |= keep(tried);
      }
    }
    return better;
  }

  bool move_clusters() {
    bool better = false;
    for (const auto& cluster : clusters_) {
      for (int d = 0; d < graph_.devices; ++d) {
        auto tried = placed_;
        for (int g : cluster) {
          if (may(g, d)) tried[at(g)] = d;
        }
        if (tried != placed_) better |= keep(tried);
      }
    }
    return better;
  }

  bool move_pairs() {
    for (std::size_t i = 0; i < movable_.size(); ++i) {
      for (std::size_t j = i + 1; j < movable_.size(); ++j) {
        const int a = movable_[i], b = movable_[j];
        for (int to = 0; to < graph_.devices * graph_.devices; ++to) {
          const int da = to % graph_.devices, db = to / graph_.devices;
          if (!may(a, da) || !may(b, db)) continue;
          auto tried = placed_;
          tried[at(a)] = da;
          tried[at(b)] = db;
          if (tried != placed_ && keep(tried)) return true;
        }
      }
    }
    return false;
  }

  const TaskGraph& graph_;
  const Simulator& simulator_;
  const std::vector<std::vector<int>>& clusters_;
  std::vector<int> movable_;
  std::vector<int> placed_;
  Score score_;
  int left_ = 0;
};

}  // namespace

std::vector<int> search_devices(const TaskGraph& graph, const Simulator& simulator,
                                const std::vector<std::vector<int>>& clusters) {
  const auto all = starting_placements(graph);
  return LocalSearch(graph, simulator, clusters).run(all);
}

}  // namespace starling::graph
