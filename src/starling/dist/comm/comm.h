#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "starling/dist/comm/call.h"
#include "starling/dist/comm/journal.h"
#include "starling/dist/comm/rank_progress.h"
#include "starling/dist/comm/rank_status.h"
#include "starling/dist/comm/work.h"

namespace starling {

class Allocator;

struct CommCapabilities {
  std::string_view backend;
  bool direct_memory = false;  // ranks read each other's buffers directly, without intermediate copies
  bool sum_shards = false;     // Comm::sum_shards is native; the free function ordered_sum works either way
  bool rank_ordered = false;   // reductions combine in rank order and round once: bitwise equal to the serial loop
  bool deterministic = false;  // equal inputs give equal bits, regardless of arrival order
  bool survives_loss = false;  // a lost peer is an error, not the end of the process
  bool device_memory = false;  // buffers lie in the memory of this rank's GPU
  bool checks_calls = false;   // mismatched calls are an error that names both sides
};

// Identity of this rank within a group.
struct CommGroup {
  int rank = 0;
  int size = 1;
  std::uint64_t epoch = 0;  // membership epoch; calls of another epoch are refused
  std::string label = "world";
  std::chrono::milliseconds deadline{300'000};  // default for calls that set none
  std::shared_ptr<dist::RankProgress>
      rank_progress{};  // of this rank, where it is supervised; shared by groups split off
};

// A rank's view of a group of ranks that exchange raw buffers.
//
// All ranks of a group make the same collective calls in the same order, from one thread at a time per rank; send and
// recv match in order for each pair and may be mixed in freely. A call only starts the operation: Work::wait ends it.
// No call waits for another rank, except when 64 collectives are outstanding, or 64 operations of any kind where a
// decorator follows them. Buffers are contiguous host memory, counts are elements and not negative, zero counts are
// fine. Where "in place" is named it is allowed; any other overlap of send and recv is refused. Misuse throws Error
// before anything is sent; whatever goes wrong later breaks the group for good on all ranks: every wait and every later
// call throws, and a new group has a new epoch.
class Comm {
 public:
  virtual ~Comm() = default;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank() const { return group_.rank; }
  int size() const { return group_.size; }
  std::uint64_t epoch() const { return group_.epoch; }
  const CommGroup& group() const { return group_; }
  const dist::Journal& journal() const { return *journal_; }                        // counters and flight recorder
  dist::RankProgress* rank_progress() const { return group_.rank_progress.get(); }  // null: this rank is not supervised
  virtual CommCapabilities capabilities() const = 0;

  // Allocator of memory that the other ranks can access: collectives whose buffers all lie in it make no intermediate
  // copies. Null if the backend has none. Allocations may outlive the communicator.
  virtual std::shared_ptr<Allocator> arena() const { return nullptr; }

  Work broadcast(void* data, std::int64_t count, DType dtype, int root, const CallOptions& options = {});

  // In place: send == recv. All ranks end with the same bits.
  Work all_reduce(const void* send, void* recv, std::int64_t count, DType dtype, ReduceOp reduce,
                  const CallOptions& options = {});

  // send: the pieces for all ranks in rank order; recv: this rank's piece. In place: recv is this rank's piece in send.
  Work reduce_scatter(const void* send, void* recv, std::int64_t count_per_rank, DType dtype, ReduceOp reduce,
                      const CallOptions& options = {});
  Work reduce_scatter(const void* send, void* recv, std::span<const std::int64_t> counts, DType dtype, ReduceOp reduce,
                      const CallOptions& options = {});

  // recv: the pieces of all ranks in rank order. In place: send is this rank's piece in recv.
  Work all_gather(const void* send, void* recv, std::int64_t count_per_rank, DType dtype,
                  const CallOptions& options = {});
  Work all_gather(const void* send, void* recv, std::span<const std::int64_t> counts, DType dtype,
                  const CallOptions& options = {});

  // Piece d of send goes to rank d; piece s of recv comes from rank s.
  Work all_to_all(const void* send, void* recv, std::int64_t count_per_pair, DType dtype,
                  const CallOptions& options = {});

  // recv: on the root, the pieces of all ranks in rank order; elsewhere ignored, null will do. In place on the root:
  // send is its piece in recv.
  Work gather(const void* send, void* recv, std::int64_t count_per_rank, DType dtype, int root,
              const CallOptions& options = {});
  Work gather(const void* send, void* recv, std::span<const std::int64_t> counts, DType dtype, int root,
              const CallOptions& options = {});

  // send: on the root, the pieces for all ranks in rank order; elsewhere ignored, null will do. recv: this rank's
  // piece. In place on the root: recv is its piece in send.
  Work scatter(const void* send, void* recv, std::int64_t count_per_rank, DType dtype, int root,
               const CallOptions& options = {});
  Work scatter(const void* send, void* recv, std::span<const std::int64_t> counts, DType dtype, int root,
               const CallOptions& options = {});

  Work send(const void* data, std::int64_t count, DType dtype, int to, const CallOptions& options = {});
  Work recv(void* data, std::int64_t count, DType dtype, int from, const CallOptions& options = {});
  Work barrier(const CallOptions& options = {});

  // Ordered sum. Each rank gives `shards` consecutive vectors of count elements; all ranks get their sum, added one by
  // one in global order (ranks in order, each rank's shards in order). In place: recv is the first shard. Requires the
  // sum_shards capability.
  Work sum_shards(const void* send, std::int64_t shards, void* recv, std::int64_t count, DType dtype,
                  const CallOptions& options = {});

  // Ranks of equal color form a group, ordered by key, then by rank here; a rank with a negative color joins none and
  // gets null. Blocks until all ranks of this group have called. The new group has its own sequence numbers, counters
  // and recorder; the two groups break together.
  std::unique_ptr<Comm> split(int color, int key, const CallOptions& options = {});

  // Calls of this object no longer count as signs of life of the rank: for threads that serve others.
  void leave_unwatched() { group_.rank_progress = nullptr; }

  // Breaks the group: every rank's outstanding and later operations throw, naming this rank and the reason, or the rank
  // at fault if the reason quotes a finding of the supervision (rank_progress.h). Once it has returned, no rank touches
  // this rank's buffers: call it before those of unfinished operations are freed. Any thread.
  virtual void abort(std::string_view reason) = 0;

  // tell: publishes this rank's status to the others. heard: the last status received from a rank. Neither blocks; a
  // newer status replaces the older one. Any thread. A backend that cannot carry statuses always hears State::unknown.
  virtual void tell([[maybe_unused]] const dist::RankStatus& status) {}
  virtual dist::RankStatus heard([[maybe_unused]] int rank) { return {}; }

 protected:
  static constexpr std::chrono::milliseconds kMeeting{60'000};  // for ranks to come to the making of a group

  Comm(CommGroup group, std::shared_ptr<dist::Journal> journal)
      : group_(std::move(group)), journal_(std::move(journal)) {}

  // Backend interface for calls already checked and numbered. A decorator forwards them with the static functions
  // below.
  // start: never waits for another rank unless too many operations are outstanding.
  // poll: true if the operation has ended. await: blocks; false if it has not ended by the deadline, with no side
  // effect.
  // expire: breaks the group because the deadline passed, and throws. All throw Error once the group is broken.
  virtual Ticket start(const Call& call) = 0;
  virtual bool poll(const Ticket& ticket) = 0;
  virtual bool await(const Ticket& ticket, CommTime deadline) = 0;
  virtual void expire(const Ticket& ticket) = 0;
  virtual std::unique_ptr<Comm> make_part(const Call& call) = 0;
  // Collective. Group of the same ranks, always over host memory, for the decorators' own messages.
  virtual std::unique_ptr<Comm> make_side(std::string_view name) {
    return split(0, rank(), {.name = name, .deadline = kMeeting});
  }

  static Ticket start(Comm& inner, const Call& call) { return inner.start(call); }
  static bool poll(Comm& inner, const Ticket& ticket) { return inner.poll(ticket); }
  static bool await(Comm& inner, const Ticket& ticket, CommTime deadline) { return inner.await(ticket, deadline); }
  static void expire(Comm& inner, const Ticket& ticket) { inner.expire(ticket); }
  static std::unique_ptr<Comm> make_part(Comm& inner, const Call& call) { return inner.make_part(call); }
  static std::unique_ptr<Comm> make_side(Comm& inner, std::string_view name) { return inner.make_side(name); }

  // A decorator of inner belongs to the same group and shares its journal.
  explicit Comm(const Comm* inner) : group_(inner->group_), journal_(inner->journal_) {}

  dist::Journal& log() { return *journal_; }
  [[noreturn]] void fail_call(std::string_view call, std::string_view reason) const;
  std::string abort_text(std::string_view reason) const;  // for backends: why the group is broken by abort()

 private:
  friend class Work;
  Work submit(Call call, const CallOptions& options);
  bool finish(const Work& work, CommTime deadline);
  bool test(const Work& work);
  Call prepare(Call call, const CallOptions& options, CommTime now);

  CommGroup group_;
  std::shared_ptr<dist::Journal> journal_;
};

}  // namespace starling
