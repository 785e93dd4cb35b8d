#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "starling/dist/health/verdict.h"
#include "starling/dist/strategy/rank_strategy.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/ranks/step_note.h"

namespace starling::train {

// Texts of all ranks, in rank order. Collective.
std::vector<std::string> gather_texts(Comm& comm, const std::string& own);

// Throws on all ranks, with the first difference, unless all train by the same settings. Collective.
void expect_same_job(Comm& comm, const std::map<std::string, std::string>& settings);

// Communication between the trainers of a run's ranks beside the strategy's exchanges, over a separate group, so that
// the strategy's counters measure the strategy alone. Everything except post() and the const queries is collective: all
// ranks call it at the same point of the run. Use from one thread.
class RankLink {
 public:
  explicit RankLink(std::shared_ptr<dist::RankStrategy> strategy);
  ~RankLink();
  RankLink(const RankLink&) = delete;
  RankLink& operator=(const RankLink&) = delete;

  int rank() const { return comm_->rank(); }
  int size() const { return comm_->size(); }
  bool leads() const { return rank() == 0; }  // writes files, prints
  dist::RankStrategy& strategy() const { return *strategy_; }
  const std::shared_ptr<dist::RankStrategy>& shared_strategy() const { return strategy_; }
  // True for the first of the ranks that hold the same rows of a batch.
  bool first_of_rows() const;
  const Comm& comm() const { return *comm_; }
  dist::RankProgress* rank_progress() const { return comm_->rank_progress(); }  // null: this rank is not supervised
  // Reports that this rank works on something the others wait for. Any thread.
  void progress() const {
    if (rank_progress() != nullptr) rank_progress()->progress();
  }

  // Notes are exchanged asynchronously: post() sends one, take() waits for all ranks' notes that belong to the oldest
  // own note not yet taken.
  void post(const StepNote& own);
  std::size_t outstanding() const { return notes_.size(); }
  std::vector<StepNote> take();

  std::vector<std::int64_t> gather(std::int64_t own);       // in rank order
  std::vector<std::string> gather(const std::string& own);  // in rank order
  // Rows of all ranks in rank order; rows[r] of them are from rank r.
  void gather_rows(const void* own, void* all, std::vector<std::int64_t> rows, std::int64_t row_bytes);
  std::string broadcast(std::string text);               // returns rank 0's text
  void broadcast(std::span<const NamedTensor> tensors);  // copies rank 0's values to all ranks
  void meet();                                           // barrier

  // Vote without waiting: post_vote() gives this rank's number, take_vote() waits for those of all. One at a time.
  void post_vote(std::int64_t own);
  std::vector<std::int64_t> take_vote();

  // Tells all ranks of rank 0's checkpoint, or its absence. Its tensors are told by type: Checkpoint::fetch sends the
  // bytes of one to all ranks, a few megabytes at a time, and is collective, too, while this link lives.
  std::optional<Checkpoint> share(std::optional<Checkpoint> own);
  // Adds the tensors of all ranks to rank 0's checkpoint, named "rank.<r>.<name>", and calls use() with it on every
  // rank. Those of other ranks stay where they are: rank 0 fetches them piece by piece while use() reads them
  // (Checkpoint::fetch), and the others serve it until use() has returned there. So it is with tensors of the
  // checkpoint that are `sharded`: there they are whole, put together from the pieces of all ranks; and with those that
  // are `sums` (of rank 0 alone) over what the ranks have given as "state.<name>".
  void lend(const std::vector<NamedTensor>& own, Checkpoint& checkpoint,
            const std::function<void(const Checkpoint&)>& use, const dist::ShardedState* sharded = nullptr,
            const std::vector<dist::ModelSum>& sums = {});

  // Vote on whether this rank's state is finite; `tensor` is the first that is not, or empty.
  dist::Verdict vote_non_finite(std::string_view tensor);

  // Throws on all ranks if the tensors differ in any bit, naming the odd rank and the first such tensor.
  void expect_equal(std::span<const NamedTensor> tensors, std::int64_t step);
  // As expect_equal(), for tensors stored in pieces, of which several ranks may store the same one.
  void expect_equal_pieces(std::span<const NamedTensor> tensors, const dist::ShardedState& sharded, std::int64_t step);
  void expect_same_job(const std::map<std::string, std::string>& settings) { train::expect_same_job(*comm_, settings); }

  // Aborts the group, so that the other ranks fail with this reason.
  void abort(std::string_view reason);

 private:
  // Request of rank 0 for bytes of a tensor that another rank serves; a negative index: no more.
  struct PieceWanted {
    std::int64_t index = -1, begin = 0, bytes = 0;
  };
  bool send_bytes(const NamedTensor& tensor, const Checkpoint::Take& take);
  void serve(const std::vector<NamedTensor>& own);
  void ask(int rank, PieceWanted wanted, std::span<std::byte> into);
  bool fetch(int rank, std::int64_t index, std::int64_t bytes, const Checkpoint::Take& take);
  bool fetch_sum(const dist::ModelSum& sum, std::span<const std::int64_t> places, const Tensor& own,
                 const Checkpoint::Take& take);
  bool fetch_pieces(const Tensor& whole, std::span<const std::int64_t> places, const dist::ShardedState& sharded,
                    const dist::AxisCuts& cuts, const Tensor& own, const Checkpoint::Take& take);

  struct Notes {
    StepNote own;
    std::vector<StepNote> all;
    Work work;
  };

  std::shared_ptr<dist::RankStrategy> strategy_;
  std::unique_ptr<Comm> comm_;
  std::deque<std::unique_ptr<Notes>> notes_;  // buffers of exchanges in flight
  std::int64_t own_vote_ = 0;
  std::vector<std::int64_t> votes_;
  Work vote_;
  bool voting_ = false;  // vote_ is under way
};

}  // namespace starling::train
