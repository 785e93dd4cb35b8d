#include "starling/dist/launch/launcher/rank_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include "starling/dist/launch/launcher/remote_shell.h"

namespace starling::dist {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kInterrupted = 130;
constexpr milliseconds kLookAround{100};      // poll interval for signals
constexpr milliseconds kLookForDead{20};      // poll interval while a rank to blame is awaited
constexpr milliseconds kLookForRoom{5};       // poll interval while a reader of our output is slow
constexpr milliseconds kLastNotes{1'000};     // to read what a dead rank had sent to the rendezvous
constexpr milliseconds kLastOutput{500};      // to read a dead rank's output while others hold the pipe open
constexpr milliseconds kSshAfterRemote{500};  // for the local ssh of a killed remote rank to end
constexpr milliseconds kWordOfRemote{500};    // for the news of a remote rank's end to arrive
constexpr milliseconds kWordOfLocal{300};     // the same for ranks of this host

std::map<std::string, std::string> place_of(const RankSlot& slot, const LaunchOptions& options,
                                            const StoreServer& server, const StartNotice& notice) {
  std::map<std::string, std::string> variables = {
      {"STARLING_RANK", std::to_string(slot.rank)},
      {"STARLING_WORLD", std::to_string(options.slots.size())},
      {"STARLING_LOCAL_RANK", std::to_string(slot.local_rank)},
      {"STARLING_LOCAL_WORLD", std::to_string(slot.local_world)},
      {"STARLING_ADDRESS", server.address()},
      {"STARLING_SECRET", notice.secret},
      {"STARLING_EPOCH", std::to_string(notice.epoch)},
      {"STARLING_LAUNCHED", notice.launch},  // also says that the launcher runs the rendezvous, not rank 0
  };
  if (!options.backend.empty()) variables["STARLING_BACKEND"] = options.backend;
  return variables;
}

// Environment of this process without rank variables, plus the rank's own.
std::vector<std::string> whole_environment(std::map<std::string, std::string> variables, int local_world) {
  std::vector<std::string> whole;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    const bool ours = name == "STARLING_RANK" || name == "STARLING_WORLD" || name == "STARLING_ADDRESS" ||
                      name == "STARLING_SECRET_FILE" || variables.contains(name);
    if (!ours) whole.emplace_back(text);
    if (name == "OMP_NUM_THREADS") local_world = 0;
  }
  if (local_world > 0) {
    const unsigned share = std::thread::hardware_concurrency() / static_cast<unsigned>(local_world);
    variables["OMP_NUM_THREADS"] = std::to_string(std::max(1U, share));
  }
  for (const auto& [name, value] : variables) whole.push_back(name + "=" + value);
  return whole;
}

// Columns that the lines of a rank have on the terminal that shows them, behind "[3] "; 0: they are shown on none, or
// the user has said how many there are.
int columns_of(const RankSlot& slot, const LaunchOptions& options) {
  constexpr int kLeast = 20;
  winsize size{};
  if (::getenv("COLUMNS") != nullptr || ::ioctl(options.output, TIOCGWINSZ, &size) != 0) return 0;
  const int prefix = options.prefix ? static_cast<int>(fmt::formatted_size("[{}] ", slot.rank)) : 0;
  return size.ws_col > prefix + kLeast ? size.ws_col - prefix : 0;
}

// Exit of a rank; the remote shell reports signals as exit codes.
Exit exit_of(const Child& child, const RankSlot& slot) {
  const Exit exit = *child.exit();
  return slot.remote && exit.code > 128 && exit.code < 128 + NSIG ? Exit{0, exit.code - 128} : exit;
}

// True if the rank was killed or lost its connection. Failures of other ranks never cause that, so it must be the
// first.
bool was_hit(const Exit& exit, const RankSlot& slot) {
  return exit.signal != 0 || (slot.remote && exit.code == kNoConnection);
}

std::vector<std::string> own_environment() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("STARLING_SECRET=")) all.emplace_back(*entry);
  }
  return all;
}

}  // namespace

RankWatch::RankWatch(const LaunchOptions& options, Console& output, Console& error)
    : options_(options), output_(output), error_(error) {}

void RankWatch::start(const StoreServer& server, const StartNotice& notice) {
  server_ = &server;
  const auto& argv = options_.argv;
  const bool terminal = ::isatty(options_.error) == 1;
  ranks_.reserve(options_.slots.size());
  for (const RankSlot& slot : options_.slots) {
    auto variables = place_of(slot, options_, server, notice);
    const bool draws = slot.rank == 0 && !slot.remote && terminal;
    ChildOptions child{.argv = argv, .input = slot.remote, .error_terminal = draws};
    std::string script;
    if (slot.remote) {
      if (const char* threads = ::getenv("OMP_NUM_THREADS")) variables["OMP_NUM_THREADS"] = threads;
      script = remote_script(argv, variables, std::filesystem::current_path().string());
      child.argv = remote_command(options_.ssh, slot.host);
      child.environment = own_environment();
    } else {
      if (const int columns = columns_of(slot, options_); columns > 0) variables["COLUMNS"] = std::to_string(columns);
      child.environment = whole_environment(std::move(variables), slot.local_world);
    }
    ranks_.push_back({slot, Child(child), OutputForwarder(output_, slot.rank, !options_.prefix),
                      OutputForwarder(error_, slot.rank, draws)});
    // Cannot block: a pipe buffers 64 KiB, a script has a few.
    if (!script.empty() &&
        ::write(ranks_.back().child.input.get(), script.data(), script.size()) != static_cast<ssize_t>(script.size()))
      fail("[launch] could not tell {} what to run: {}", child.argv[0], errno_text());
  }
}

LaunchEnd RankWatch::run() {
  while (!all_ended()) {
    wait_for_something();
    relay();
    if (reap() || noticed_ || (!failed_ && server_->finding())) judge();
    pass_on_stop();
    end_stragglers();
    if (kill_at_ && Clock::now() >= *kill_at_) kill_all();
  }
  for (Rank& rank : ranks_) {
    rank.output.finish();
    rank.error.finish();
  }
  LaunchEnd end;
  if (failed_) {
    server_->catch_up(kLastNotes);
    end.failed = describe(ranks_[static_cast<std::size_t>(*failed_)]);
    end.code = end.failed->exit.code == 2 && finding_.empty() ? 2 : 1;
  } else if (interrupted_) {
    const auto good = [&](const Rank& rank) { return rank.child.exit()->good() || is_spare(rank); };
    end.code = std::all_of(ranks_.begin(), ranks_.end(), good) ? 0 : kInterrupted;
  }
  return end;
}

void RankWatch::wait_for_something() {
  std::vector<pollfd> waits;
  auto patience = noticed_ && !failed_ ? kLookForDead : kLookAround;
  for (const Rank& rank : ranks_) {
    for (const auto& [fd, relay] : {std::pair(&rank.child.output, &rank.output), {&rank.child.error, &rank.error}}) {
      if (!*fd) continue;
      if (relay->held_up()) {
        patience = std::min(patience, kLookForRoom);  // the full pipe would end every poll at once
      } else {
        waits.push_back({fd->get(), POLLIN, 0});
      }
    }
    if (!rank.ended) waits.push_back({rank.child.ended.get(), POLLIN, 0});
  }
  if (kill_at_) {
    const auto left = std::chrono::ceil<milliseconds>(*kill_at_ - Clock::now());
    patience = std::clamp(left, milliseconds(0), patience);
  }
  ::poll(waits.data(), waits.size(), static_cast<int>(patience.count()));
}

void RankWatch::relay() {
  for (Rank& rank : ranks_) {
    if (rank.child.output && !rank.output.read(rank.child.output)) rank.child.output = UniqueFd();
    if (rank.child.error && !rank.error.read(rank.child.error)) rank.child.error = UniqueFd();
  }
}

// Two rounds: a rank that died because of another died after it, so if one is found in the first, its cause is found by
// the second.
bool RankWatch::reap() {
  bool any = false;
  for (int round = 0; round < 2; ++round) {
    for (Rank& rank : ranks_) {
      if (rank.ended) continue;
      rank.child.reap();
      if (!rank.child.exit()) continue;
      rank.ended = Clock::now();
      rank.hit = was_hit_by_others(rank);
      rank.child.input = UniqueFd();
      if (rank.child.output) rank.output.read_rest(rank.child.output);
      if (rank.child.error) rank.error.read_rest(rank.child.error);
      any = true;
      if (is_spare(rank) && !rank.child.exit()->good() && rank.sent.empty()) tell_spare(rank);
    }
  }
  return any;
}

bool RankWatch::is_spare(const Rank& rank) const {
  return std::find(options_.spare.begin(), options_.spare.end(), rank.slot.rank) != options_.spare.end();
}

void RankWatch::tell_spare(const Rank& rank) {
  error_.line(fmt::format("starling: {}; the others go on", describe(rank).text()));
}

void RankWatch::judge() {
  for (const Rank& rank : ranks_) {
    // Exited as if asked to stop, though not by us; the others have heard of it from that rank.
    if (rank.ended && rank.child.exit()->code == kInterrupted && !interrupted_ && !failed_) {
      interrupted_ = true;
      kill_at_ = Clock::now() + options_.stop_within;
    }
  }
  if (hear_finding()) return;
  // A rank that was hit is blamed before one that left because of it, even if its end is heard of later.
  if (const Rank* hit = first_hit(); hit != nullptr && finding_.empty()) return blame(*hit);
  if (failed_) return;
  const Rank* first = first_failure();
  if (first == nullptr) return;
  if (!noticed_) noticed_ = Clock::now();
  if (!may_be_late()) blame(*first);
}

void RankWatch::blame(const Rank& rank) {
  const bool known = failed_.has_value();
  failed_ = static_cast<int>(&rank - ranks_.data());
  if (!noticed_) noticed_ = Clock::now();
  if (!known) end_others(options_.kill_after);
}

// A rank that the heartbeats have found silent or hung hears no SIGTERM.
bool RankWatch::hear_finding() {
  if (failed_ || interrupted_) return false;
  const auto found = server_->finding();
  if (!found) return false;
  finding_ = found->text.substr(kSupervision.size());
  for (const int number : found->ranks) {
    Rank& rank = ranks_.at(static_cast<std::size_t>(number));
    if (!failed_) blame(rank);
    if (!rank.ended && found->ranks.size() < ranks_.size()) signal(rank, SIGKILL);
  }
  return true;
}

RankWatch::Rank* RankWatch::first_hit() {
  Rank* first = nullptr;
  for (Rank& rank : ranks_) {
    if (rank.hit && (first == nullptr || *rank.ended < *first->ended)) first = &rank;
  }
  return first;
}

// Rank to blame among those that have failed, none of which was hit: the first to report its failure, though it may not
// have ended yet; else any.
RankWatch::Rank* RankWatch::first_failure() {
  Rank* first = nullptr;
  std::uint64_t first_order = 0;
  bool any = false;
  for (Rank& rank : ranks_) {
    if (is_spare(rank)) continue;
    const bool bad = rank.ended && !left_well(rank);
    any |= bad;
    const auto told = server_->note(fmt::format("failed/{}", rank.slot.rank));
    if (!bad && !told) continue;
    const std::uint64_t order = told ? told->order : UINT64_MAX;
    if (first != nullptr && order >= first_order) continue;
    first = &rank;
    first_order = order;
  }
  return any ? first : nullptr;
}

// True if the first failure may still be unknown. Peers of a dead remote rank may end before the news of it arrives
// here; those of a local one, too, on a busy machine: the kernel closes the connections of a killed process before its
// parent can see that it has ended. News that is later still corrects the blame (judge), but not the order of events.
bool RankWatch::may_be_late() const {
  const auto waited = Clock::now() - *noticed_;
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const Rank& r) {
    return !r.ended && waited < (r.slot.remote ? kWordOfRemote : kWordOfLocal);
  });
}

// A signal of ours may have ended the rank, and one that had reported a failure has crashed on its way out.
bool RankWatch::was_hit_by_others(const Rank& rank) const {
  const Exit exit = exit_of(rank.child, rank.slot);
  if (!was_hit(exit, rank.slot) || left_well(rank)) return false;
  const bool ours = std::find(rank.sent.begin(), rank.sent.end(), exit.signal) != rank.sent.end();
  // A program that was asked to end may crash on its way; only what it cannot do to itself is another's doing then.
  if (ours || (!rank.sent.empty() && exit.signal != SIGKILL)) return false;
  return !server_->note(fmt::format("failed/{}", rank.slot.rank));
}

// True if the rank succeeded, stopped on request, or was killed by us because it did not.
bool RankWatch::left_well(const Rank& rank) const {
  const Exit& exit = *rank.child.exit();
  if (exit.good() || is_spare(rank) || (interrupted_ && killed_)) return true;
  return interrupted_ && (exit.code == kInterrupted || exit.signal == SIGINT || exit.signal == SIGTERM ||
                          (rank.slot.remote && (exit.code == 128 + SIGINT || exit.code == 128 + SIGTERM)));
}

void RankWatch::pass_on_stop() {
  if (!options_.stop) return;
  const auto [signal, times] = options_.stop();
  if (times == stops_passed_on_) return;
  if (stops_passed_on_ == 0) {
    interrupted_ = true;
    signal_all(signal);
    if (!kill_at_) kill_at_ = Clock::now() + options_.stop_within;
  }
  if (times > 1) kill_at_ = Clock::now();
  stops_passed_on_ = times;
}

void RankWatch::end_others(milliseconds kill_after) {
  for (Rank& rank : ranks_) {
    // The first failed rank may still be reporting its error.
    if (!rank.ended && &rank - ranks_.data() != *failed_) signal(rank, SIGTERM);
  }
  kill_at_ = *noticed_ + kill_after;
}

// Spare ranks have nothing to do once all others have ended, and one that is stopped would stay for ever.
void RankWatch::end_stragglers() {
  const auto needed = [&](const Rank& rank) { return !rank.ended && !is_spare(rank); };
  if (killed_ || failed_ || options_.spare.empty() || std::any_of(ranks_.begin(), ranks_.end(), needed)) return;
  if (!only_spares_since_) only_spares_since_ = Clock::now();
  if (Clock::now() < *only_spares_since_ + options_.kill_after) return;
  for (const Rank& rank : ranks_) {
    if (!rank.ended)
      error_.line(fmt::format("starling: {} is still there {:g} s after the others have ended, and is killed",
                              name_of(rank.slot, rank.child.pid()),
                              std::chrono::duration<double>(options_.kill_after).count()));
  }
  killed_ = true;
  kill_all();
}

void RankWatch::signal_all(int signal) {
  for (Rank& rank : ranks_) {
    if (!rank.ended) this->signal(rank, signal);
  }
}

void RankWatch::kill_all() {
  const bool out_of_time = interrupted_ && !failed_ && !killed_ && stops_passed_on_ <= 1;
  for (const Rank& rank : ranks_) {
    if (out_of_time && !rank.ended)
      error_.line(fmt::format("starling: rank {} has not left within {:.1f} s (--grace) and is killed", rank.slot.rank,
                              std::chrono::duration<double>(options_.stop_within).count()));
  }
  killed_ = true;
  signal_all(SIGKILL);
  kill_at_ = Clock::now() + kSshAfterRemote;
}

// Signals of a remote rank go to its remote shell; the local ssh is only killed some time later.
void RankWatch::signal(Rank& rank, int signal) {
  rank.sent.push_back(signal);
  if (!rank.slot.remote || !rank.child.input) return rank.child.signal(signal);
  const std::string line = signal_name(signal).substr(3) + "\n";
  const bool told = ::write(rank.child.input.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (signal == SIGKILL || !told) rank.child.input = UniqueFd();
}

bool RankWatch::all_ended() const {
  for (const Rank& rank : ranks_) {
    if (!rank.ended) return false;
    const bool silent = !rank.child.output && !rank.child.error;
    if (!silent && Clock::now() < *rank.ended + kLastOutput) return false;
  }
  return true;
}

RankEnd RankWatch::describe(const Rank& rank) const {
  RankEnd end{.slot = rank.slot, .pid = rank.child.pid(), .exit = exit_of(rank.child, rank.slot)};
  if (end.slot.host.empty()) end.slot.host = host_name();
  end.finding = finding_;
  if (const auto note = server_->note(fmt::format("step/{}", rank.slot.rank))) {
    std::int64_t step = 0;
    const auto [stop, error] = std::from_chars(note->value.data(), note->value.data() + note->value.size(), step);
    if (error == std::errc{}) end.step = step;
    end.step_is_last = server_->note(fmt::format("failed/{}", rank.slot.rank)).has_value();
  }
  if (!finding_.empty()) end.exit = {};
  end.last_lines.assign(rank.error.tail().begin(), rank.error.tail().end());
  end.spoke_last = rank.error.spoke_last();
  return end;
}

}  // namespace starling::dist
