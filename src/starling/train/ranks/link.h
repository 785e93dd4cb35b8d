#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "starling/dist/strategy/rank_strategy.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/ranks/step_note.h"

namespace starling {

// How the trainers of all ranks of a run talk beside what their strategy exchanges: through a group of their own, so
// that the strategy's counters tell of the strategy alone. Everything but post() and the questions is collective: all
// ranks call it at the same point of the run. Use from one thread.
class RankLink {
 public:
  explicit RankLink(std::shared_ptr<RankStrategy> strategy);
  ~RankLink();
  RankLink(const RankLink&) = delete;
  RankLink& operator=(const RankLink&) = delete;

  int rank() const { return comm_->rank(); }
  int size() const { return comm_->size(); }
  bool leads() const { return rank() == 0; }  // writes files, prints
  RankStrategy& strategy() const { return *strategy_; }
  const Comm& comm() const { return *comm_; }

  // Notes travel while the run goes on: post() hands one over, take() gives those of all ranks for the oldest that was
  // posted and not taken.
  void post(const StepNote& own);
  std::size_t outstanding() const { return notes_.size(); }
  std::vector<StepNote> take();

  std::vector<std::int64_t> gather(std::int64_t own);       // in the order of the ranks
  std::vector<std::string> gather(const std::string& own);  // likewise
  // Rows of all ranks, which have so many each, in the order of the ranks.
  void gather_rows(const void* own, void* all, std::vector<std::int64_t> rows, std::int64_t row_bytes);
  std::string broadcast(std::string text);               // rank 0's
  void broadcast(std::span<const NamedTensor> tensors);  // rank 0's values, into all
  void meet();                                           // however long it takes the last one to come

  // Rank 0's checkpoint on all ranks, or that there is none.
  std::optional<Checkpoint> share(std::optional<Checkpoint> own);
  // The tensors of all ranks on rank 0, by the names "rank.<r>.<name>"; nothing elsewhere.
  std::vector<NamedTensor> collect(const std::vector<NamedTensor>& own);

  // Throws on all ranks unless these hold the same bits everywhere, naming the odd rank and the first such tensor.
  void expect_equal(std::span<const NamedTensor> tensors, std::int64_t step);

  // Breaks the group, so that the others end with this reason.
  void abort(std::string_view reason);

 private:
  struct Notes {
    StepNote own;
    std::vector<StepNote> all;
    Work work;
  };

  std::shared_ptr<RankStrategy> strategy_;
  std::unique_ptr<Comm> comm_;
  std::deque<std::unique_ptr<Notes>> notes_;  // memory that the group reads and writes
};

}  // namespace starling
