#include "starling/train/workers/group_line.h"

#include <thread>

#include "starling/base/error.h"

namespace starling::train {
namespace {

using namespace std::chrono_literals;

constexpr auto kJoinEvery = 50ms;

// Member 0's value, to all.
template <class T>
void share(Comm& comm, T& value, const char* name) {
  static_assert(std::is_trivially_copyable_v<T>);
  comm.broadcast(&value, static_cast<std::int64_t>(sizeof value), DType::u8, 0, {.name = name}).wait();
}

struct Opening {
  DirectLine::Begun begun = DirectLine::Begun::not_yet;
  data::DataPosition position{};
};

}  // namespace

GroupLine::GroupLine(GroupLineOptions options) : options_(std::move(options)) {
  options_.leader->when_lost([this] { part("the leader has lost a member of this group"); });
}

GroupLine::~GroupLine() { options_.leader->when_lost({}); }

// Members may have loaded their data for very different times: a member that dies meanwhile is lost to the leader,
// which ends the wait. Then all look on while the leader prepares, so that none waits for another longer than a moment.
std::optional<RunStart> GroupLine::join(const std::vector<Tensor>& like) {
  options_.tells->barrier({.name = "group.loaded", .deadline = kNoDeadline}).wait();
  Opening opening;
  RunStart start;
  while (true) {
    if (leads()) opening.begun = options_.leader->try_join(like, start);
    opening.position = start.position;
    share(*options_.tells, opening, "group.join");
    if (opening.begun != DirectLine::Begun::not_yet) break;
    if (leads()) std::this_thread::sleep_for(kJoinEvery);
  }
  if (opening.begun == DirectLine::Begun::over) return std::nullopt;
  start.position = opening.position;
  if (!leads()) {
    for (const Tensor& one : like) start.buffers.push_back(empty(one.shape(), one.dtype()));
  }
  for (const Tensor& one : start.buffers)
    options_.tells->broadcast(one.raw(), one.numel(), one.dtype(), 0, {.name = "group.buffers"}).wait();
  return start;
}

std::optional<std::int64_t> GroupLine::next(const std::atomic<bool>& stop) {
  while (!ended_) {
    PortionAnswer answer;
    if (leads()) answer = options_.leader->ask();
    share(*options_.asks, answer, "group.portion");
    if (answer.kind == PortionAnswer::Kind::later) {
      if (stop) return std::nullopt;
      continue;
    }
    const std::scoped_lock lock(mutex_);
    if (answer.kind == PortionAnswer::Kind::portion) {
      terms_[answer.portion] = {answer.lr, answer.clock, answer.alone != 0, answer.pauses};
      return answer.portion * members() + member();
    }
    ended_ = answer.kind == PortionAnswer::Kind::end;
    reasons_.push_back(answer.kind);
    return std::nullopt;
  }
  return std::nullopt;
}

LeaderLine::Terms GroupLine::terms(std::int64_t portion) {
  const std::scoped_lock lock(mutex_);
  auto found = terms_.extract(told_as(portion));
  check(!found.empty(), "[worker {}] expected a portion that its group was given, got {}", worker(), portion);
  return found.mapped();
}

// Procedures, whose portions several workers may have, are not for groups.
bool GroupLine::wanted(std::int64_t /*portion*/) { return true; }

PortionAnswer::Kind GroupLine::why() {
  const std::scoped_lock lock(mutex_);
  check(!reasons_.empty(), "[worker {}] expected a reason for a batch without a portion, got none", worker());
  const PortionAnswer::Kind reason = reasons_.front();
  reasons_.pop_front();
  return reason;
}

// Sums over the members, and one of the parameters or fields that they name; times and bytes are this member's.
PortionNote GroupLine::whole(const PortionNote& note) {
  const auto bad = [&](std::uint32_t what) { return note.not_finite == what ? 1.0 : 0.0; };
  double sums[] = {note.loss,
                   note.weight,
                   static_cast<double>(note.rows),
                   static_cast<double>(note.stats.samples),
                   static_cast<double>(note.stats.left_out),
                   bad(StepNote::kLoss),
                   bad(StepNote::kGradients)};
  options_.tells->all_reduce(sums, sums, std::size(sums), DType::f64, ReduceOp::sum, {.name = "group.note"}).wait();
  PortionNote all = note;
  all.loss = sums[0];
  all.weight = sums[1];
  all.rows = static_cast<std::int64_t>(sums[2]);
  all.stats.samples = static_cast<std::int64_t>(sums[3]);
  all.stats.left_out = static_cast<std::int64_t>(sums[4]);
  all.not_finite = sums[5] > 0 ? StepNote::kLoss : sums[6] > 0 ? StepNote::kGradients : 0;
  all.parameter = 0;
  if (all.not_finite != 0) {
    double parameter = note.not_finite == all.not_finite ? note.parameter : 0;
    options_.tells->all_reduce(&parameter, &parameter, 1, DType::f64, ReduceOp::max, {.name = "group.parameter"})
        .wait();
    all.parameter = static_cast<std::uint32_t>(parameter);
  }
  return all;
}

bool GroupLine::done(const PortionNote& note) { return leads() && options_.leader->done(note); }

void GroupLine::show(const std::vector<Tensor>& buffers) {
  if (leads()) options_.leader->show(buffers);
}

void GroupLine::settled() {
  if (leads()) options_.leader->settled();
}

void GroupLine::leave(const std::string& counters) {
  if (leads()) options_.leader->leave(counters);
}

void GroupLine::failed(const std::string& why) {
  options_.leader->failed(why.substr(0, why.find('\n')));  // without the calls before it
  part(why);
}

void GroupLine::part(const std::string& why) {
  options_.asks->abort(why);
  options_.tells->abort(why);
}

}  // namespace starling::train
