// 200 programs of collectives and messages, each with one mistake on one rank. With the checking decorator every
// mistake is reported, with both of its sides, within a second after the last rank has made its call; without it they
// are not.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
#include <thread>

#include "dist/comm_worlds.h"

namespace starling::seeded {

using std::chrono::milliseconds;

inline constexpr int kCases = 200;

enum class Kind {
  order,
  count,
  dtype,
  op,
  reduction,
  root,
  name,
  pieces,
  missing,
  extra,
  message_count,
  message_missing,
  wrong_rank
};
inline constexpr int kKinds = 13;
inline constexpr const char* kKindNames[kKinds] = {
    "order", "count",         "dtype",           "op",        "reduction", "root", "name", "pieces", "missing",
    "extra", "message_count", "message_missing", "wrong_rank"};

// One call of one rank; op send is a message from rank `from` to rank `to`.
struct Step {
  CommOp op = CommOp::barrier;
  DType dtype = DType::f32;
  ReduceOp reduce = ReduceOp::sum;
  int root = 0;
  std::int64_t count = 0;
  std::vector<std::int64_t> counts{};
  std::string name{};
  int from = -1, to = -1;
  bool later = false;  // wait for it only after the next call
};
using Program = std::vector<Step>;

// Text of a call in error messages, without its number.
inline std::string text_of(const Step& step, bool receives = false) {
  if (step.op == CommOp::barrier) return fmt::format("barrier '{}'", step.name);
  std::string text(name(receives ? CommOp::recv : step.op));
  if (step.op == CommOp::all_reduce || step.op == CommOp::reduce_scatter)
    text += fmt::format("({})", name(step.reduce));
  text += fmt::format(" {} x {}", name(step.dtype), step.count);
  if (!step.name.empty()) text += fmt::format(" '{}'", step.name);
  if (step.op == CommOp::broadcast) text += fmt::format(" root {}", step.root);
  if (step.op == CommOp::send) text += fmt::format(" from rank {}", step.from);
  return text;
}

struct Case {
  int world = 0;
  int odd = 0;                                    // rank that makes the mistake
  std::vector<Program> programs{};                // by rank
  std::vector<std::vector<std::string>> sides{};  // required in an error: one text of each list
  bool at_end = false;                            // an extra call when the others have left, or are about to
};

class Generator {
 public:
  Generator(int seed, Kind kind) : random_(static_cast<std::uint32_t>(seed)), kind_(kind) {}

  Case make() {
    Case c;
    c.world = kind_ == Kind::wrong_rank ? pick(3, 4) : pick(2, 4);
    c.odd = pick(0, c.world - 1);
    const int length = pick(3, 7);
    Program program;
    for (int i = 0; i < length; ++i) program.push_back(any(i, c.world));
    place_ = static_cast<std::size_t>(pick(0, kind_ == Kind::order ? length - 2 : length - 1));
    program[place_] = fitting(c);
    program[place_].later = false;
    if (kind_ == Kind::order) program[place_ + 1] = collective(static_cast<int>(place_) + 1, c.world);
    c.programs.assign(static_cast<std::size_t>(c.world), program);
    mistake(c, c.programs[static_cast<std::size_t>(c.odd)], program);
    return c;
  }

 private:
  int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  DType other(DType dtype) const { return dtype == DType::f32 ? DType::i32 : DType::f32; }

  // Every call of a program is unique: its count, and mostly its name, tell its position.
  Step collective(int i, int world) {
    constexpr CommOp ops[] = {CommOp::all_reduce, CommOp::broadcast,  CommOp::reduce_scatter,
                              CommOp::all_gather, CommOp::all_to_all, CommOp::barrier};
    constexpr ReduceOp reductions[] = {ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::product};
    constexpr DType dtypes[] = {DType::f32, DType::f64, DType::i32};
    Step step{.op = ops[pick(0, 5)], .dtype = dtypes[pick(0, 2)], .root = pick(0, world - 1)};
    if (step.op == CommOp::all_reduce || step.op == CommOp::reduce_scatter) step.reduce = reductions[pick(0, 3)];
    if (step.op != CommOp::barrier) step.count = 10 * i + pick(1, 9);
    if (step.op == CommOp::barrier || pick(0, 2) > 0) step.name = fmt::format("g{}", i);
    step.later = pick(0, 2) == 0;
    return step;
  }

  Step message(int i, int world) {
    Step step{.op = CommOp::send, .count = 10 * i + pick(1, 9), .name = fmt::format("m{}", i)};
    step.from = pick(0, world - 1);
    step.to = (step.from + pick(1, world - 1)) % world;
    return step;
  }

  Step any(int i, int world) { return pick(0, 3) == 0 ? message(i, world) : collective(i, world); }

  // A call in which the mistake is possible.
  Step fitting(Case& c) {
    const int i = static_cast<int>(place_);
    if (kind_ == Kind::message_count || kind_ == Kind::message_missing || kind_ == Kind::wrong_rank) {
      Step step = message(i, c.world);
      c.odd = kind_ == Kind::message_count ? step.to : step.from;
      return step;
    }
    Step step = collective(i, c.world);
    if (step.op == CommOp::barrier) step = {.op = CommOp::all_reduce, .count = 10 * i + 5, .name = "w"};
    if (kind_ == Kind::reduction) step.op = CommOp::all_reduce;
    if (kind_ == Kind::root) step.op = CommOp::broadcast;
    if (kind_ == Kind::root || kind_ == Kind::op) step.reduce = ReduceOp::sum;
    if (kind_ == Kind::pieces) {
      step = {.op = CommOp::all_gather, .dtype = step.dtype, .name = step.name};
      for (int r = 0; r < c.world; ++r) step.counts.push_back(10 * i + 1 + r);
      for (auto count : step.counts) step.count += count;
    }
    return step;
  }

  void mistake(Case& c, Program& own, const Program& right) {
    Step& step = own[place_];
    const Step was = step;
    // Calls in which the odd rank may be found: a message may pass or block it, a collective blocks it.
    const auto next_of = [&](const Program& program, std::size_t from) {
      std::vector<std::string> texts;
      for (std::size_t i = from; i < program.size(); ++i) {
        const Step& s = program[i];
        if (s.op == CommOp::send && s.from != c.odd && s.to != c.odd) continue;
        texts.push_back(text_of(s, s.op == CommOp::send && s.to == c.odd));
        if (s.op != CommOp::send) return texts;
      }
      texts.push_back(fmt::format("rank {} has left", c.odd));
      texts.push_back(fmt::format("rank {} (left", c.odd));
      return texts;
    };
    switch (kind_) {
      case Kind::order: std::swap(own[place_], own[place_ + 1]); break;
      case Kind::count: step.count += pick(0, 1) ? 1 : -1; break;
      case Kind::dtype: step.dtype = other(step.dtype); break;
      case Kind::op: step.op = step.op == CommOp::all_gather ? CommOp::all_to_all : CommOp::all_gather; break;
      case Kind::reduction: step.reduce = step.reduce == ReduceOp::max ? ReduceOp::sum : ReduceOp::max; break;
      case Kind::root: step.root = (step.root + 1) % c.world; break;
      case Kind::name: step.name += "'"; break;
      case Kind::pieces: std::swap(step.counts[0], step.counts[1]); break;
      case Kind::extra: {
        Step more = was;
        more.name = "once more";
        c.at_end = place_ + 1 == own.size();
        own.insert(own.begin() + static_cast<std::ptrdiff_t>(place_ + (c.at_end ? 1 : 0)), more);
        break;
      }
      case Kind::missing: own.erase(own.begin() + static_cast<std::ptrdiff_t>(place_)); break;
      case Kind::message_count: step.count += 3; break;
      case Kind::message_missing: own.erase(own.begin() + static_cast<std::ptrdiff_t>(place_)); break;
      case Kind::wrong_rank:
        do step.to = (step.to + 1) % c.world;
        while (step.to == step.from);
        break;
    }
    switch (kind_) {
      case Kind::missing: c.sides = {{text_of(was)}, next_of(own, place_)}; break;
      case Kind::message_missing: c.sides = {{text_of(was, true)}, next_of(own, place_)}; break;
      // The receiver waits in vain; or the addressed rank has left, and the sender waits.
      case Kind::wrong_rank:
        c.sides = {{text_of(was, true), text_of(was)}, next_of(own, place_)};
        c.sides[1].push_back(fmt::format("rank {} has left", step.to));
        break;
      case Kind::message_count: c.sides = {{text_of(was)}, {text_of(step, true)}}; break;
      case Kind::extra:
        // After the last call of the others, which have left.
        c.sides = {{c.at_end ? "left" : text_of(was)}, {text_of(own[place_ + (c.at_end ? 1 : 0)])}};
        break;
      default: c.sides = {{text_of(right[place_])}, {text_of(own[place_])}};
    }
  }

  std::mt19937 random_;
  const Kind kind_;
  std::size_t place_ = 0;
};

// Runs a rank's program; buffers live as long as the rank's Works.
class Player {
 public:
  explicit Player(Comm& comm) : comm_(comm) {}

  void play(const Program& program) {
    std::optional<Work> open;
    for (const Step& step : program) {
      if (step.op == CommOp::send && step.from != comm_.rank() && step.to != comm_.rank()) continue;
      note();
      const Work work = call(step);
      if (open) open->wait();
      open.reset();
      if (step.later) {
        open = work;
      } else {
        note();
        work.wait();
      }
    }
    note();
    if (open) open->wait();
  }

  void note() { entered_ = CommClock::now().time_since_epoch().count(); }
  std::int64_t entered() const { return entered_; }

 private:
  Work call(const Step& s) {
    const auto bytes = static_cast<std::size_t>(s.count * comm_.size() * 8 + 64);
    buffers_.push_back(std::make_unique<std::vector<std::byte>>(2 * bytes));
    std::byte *send = buffers_.back()->data(), *recv = send + bytes;
    const CallOptions options{.name = s.name};
    switch (s.op) {
      case CommOp::all_reduce: return comm_.all_reduce(send, recv, s.count, s.dtype, s.reduce, options);
      case CommOp::broadcast: return comm_.broadcast(send, s.count, s.dtype, s.root, options);
      case CommOp::reduce_scatter: return comm_.reduce_scatter(send, recv, s.count, s.dtype, s.reduce, options);
      case CommOp::all_gather:
        if (!s.counts.empty()) return comm_.all_gather(send, recv, s.counts, s.dtype, options);
        return comm_.all_gather(send, recv, s.count, s.dtype, options);
      case CommOp::all_to_all: return comm_.all_to_all(send, recv, s.count, s.dtype, options);
      case CommOp::send:
        if (s.from == comm_.rank()) return comm_.send(send, s.count, s.dtype, s.to, options);
        return comm_.recv(recv, s.count, s.dtype, s.from, options);
      default: return comm_.barrier(options);
    }
  }

  Comm& comm_;
  std::int64_t entered_ = 0;
  std::vector<std::unique_ptr<std::vector<std::byte>>> buffers_;
};

// Error message without the list of last operations, which names everything.
inline std::string message_of(const std::string& error) { return error.substr(0, error.find("\nlast operations")); }

// Outcome of one rank's program; times are of the clock that all processes of a host share.
struct Played {
  std::string message{};     // empty: success
  std::int64_t entered = 0;  // time of its last call, or of leaving
  std::int64_t failed = 0;
};

inline Played play_rank(const Program& program, std::unique_ptr<Comm> comm) {
  Played played;
  Player player(*comm);
  try {
    player.play(program);
  } catch (const Error& error) {
    played.failed = CommClock::now().time_since_epoch().count();
    played.message = message_of(error.what());
  }
  comm.reset();  // a rank leaves at the end of its program
  if (played.message.empty()) player.note();
  played.entered = player.entered();
  return played;
}

struct Outcome {
  std::vector<std::string> messages{};  // by rank; empty: success
  double seconds = 0;                   // from the last rank's last call, or its leaving, to the last error

  explicit Outcome(const std::vector<Played>& ranks) {
    std::int64_t entered = 0, failed = 0;
    for (const Played& played : ranks) {
      messages.push_back(played.message);
      entered = std::max(entered, played.entered);
      failed = std::max(failed, played.failed);
    }
    seconds = std::chrono::duration<double>(CommClock::duration(failed - entered)).count();
  }

  static bool tells(const std::string& message, const std::vector<std::string>& side) {
    const auto found = [&](const std::string& text) { return message.find(text) != std::string::npos; };
    return std::any_of(side.begin(), side.end(), found);
  }

  // True if every failed rank names what the odd one did and should have done. Ranks that did not wait for a rank that
  // has left or failed already need not name what they missed.
  bool named(const Case& c) const {
    const std::vector<std::string> gone{fmt::format("rank {} has left", c.odd), fmt::format("rank {} (left", c.odd)};
    const std::string failed = fmt::format(": rank {} in ", c.odd);
    bool both = false;
    for (const std::string& message : messages) {
      if (message.empty()) continue;
      const bool right = tells(message, c.sides[0]), wrong = tells(message, c.sides[1]);
      both = both || (right && wrong);
      if (c.at_end && right) continue;  // the rank was about to leave
      const bool told_on = tells(message, {failed}) && tells(message, {"has left"});
      if (!wrong || (!right && !tells(message, gone) && !told_on)) return false;
    }
    return both;
  }
};

using Make = std::function<dist::Comms(int world)>;

inline Outcome play(const Case& c, dist::Comms comms) {
  std::vector<Played> played(comms.size());
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < comms.size(); ++r) {
    threads.emplace_back([&, r] { played[r] = play_rank(c.programs[r], std::move(comms[r])); });
  }
  threads.clear();
  return Outcome(played);
}

struct Tally {
  int played = 0, named = 0, in_time = 0;
  std::string misses{};

  void add(int number, const Case& c, const Outcome& outcome) {
    const bool names = outcome.named(c), soon = outcome.seconds < 1.0;
    ++played;
    named += names;
    in_time += names && soon;
    if (names && soon) return;
    misses += fmt::format("case {} ({:.2f} s), expected {} and {}\n  got {}\n", number, outcome.seconds,
                          fmt::join(c.sides[0], " or "), fmt::join(c.sides[1], " or "),
                          fmt::join(outcome.messages, "\n  got "));
  }
};

// Plays all cases of a kind, a few at a time.
inline Tally play_all(Kind kind, const Make& make) {
  Tally tally;
  std::mutex mutex;
  std::atomic<int> next{static_cast<int>(kind)};
  const auto work = [&] {
    for (int i = next.fetch_add(kKinds); i < kCases; i = next.fetch_add(kKinds)) {
      const Case c = Generator(i, kind).make();
      const Outcome outcome = play(c, make(c.world));
      std::scoped_lock lock(mutex);
      tally.add(i, c, outcome);
    }
  };
  std::vector<std::jthread> workers;
  for (int i = 0; i < 4; ++i) workers.emplace_back(work);
  workers.clear();
  return tally;
}

struct World {
  std::string name;
  Make make;
};

inline void PrintTo(const World& world, std::ostream* out) { *out << world.name; }

inline void expect_all_named(const World& world, int kind) {
  const Tally tally = play_all(static_cast<Kind>(kind), world.make);
  EXPECT_GE(tally.played, kCases / kKinds);
  EXPECT_EQ(tally.named, tally.played) << tally.misses;
  EXPECT_EQ(tally.in_time, tally.played) << tally.misses;
}

}  // namespace starling::seeded
