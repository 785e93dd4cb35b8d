#include "starling/dist/health/failure_detector.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace starling::dist {
namespace {

using std::chrono::milliseconds;
using Seconds = std::chrono::duration<double>;

std::string after(std::int64_t step) { return step < 0 ? "before its first step" : fmt::format("after step {}", step); }

// Of a rank that may have gone further than it has told.
std::string last_reported(std::int64_t step) {
  return step < 0 ? "no step reported yet" : fmt::format("last reported step {}", step);
}

}  // namespace

Beat beat_of(const RankProgress& rank_progress, milliseconds deadline) {
  return {.deadline = rank_progress.uncounted() ? kUncountedDeadlines * deadline : deadline,
          .progress = rank_progress.count(),
          .waiting = rank_progress.waiting(),
          .step = rank_progress.step(),
          .doing = rank_progress.doing()};
}

std::string write_beat(const Beat& beat) {
  return fmt::format("{} {} {} {} {} {} {}\n{}\n{}\n{}", beat.every.count(), beat.deadline.count(), beat.progress,
                     beat.waiting ? 1 : 0, beat.left ? 1 : 0, beat.spare ? 1 : 0, beat.step, beat.role, beat.place,
                     beat.doing);
}

Result<Beat> read_beat(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::int64_t every = 0, deadline = 0;
  Beat beat;
  in >> every >> deadline >> beat.progress >> beat.waiting >> beat.left >> beat.spare >> beat.step;
  if (!in || every <= 0 || deadline < 0) return failure("expected a heartbeat, got '{}'", text.substr(0, 100));
  in.ignore(1);
  std::getline(in, beat.role);
  std::getline(in, beat.place);
  std::getline(in, beat.doing);
  beat.every = milliseconds(every);
  beat.deadline = milliseconds(deadline);
  return beat;
}

std::string silence_text(std::string_view who, Seconds since, milliseconds every, std::int64_t step) {
  return fmt::format(
      "{}{} has been silent for {:.1f} s, {}: expected a heartbeat every {} s; it is stopped, cut off or dead",
      kSupervision, who, since.count(), last_reported(step), Seconds(every).count());
}

void FailureDetector::beat(int rank, Beat beat, Time now) {
  if (!ranks_.empty() && now - newest() > 2 * shortest()) forgive(now - newest(), now);
  const auto [entry, fresh] = ranks_.try_emplace(rank);
  Rank& own = entry->second;
  if (fresh || beat.progress != own.last.progress) own.progressed = now;
  own.heard = now;
  if (beat.left && !own.last.left) begin_anew(now);
  own.last = std::move(beat);
  gone_.erase(rank);
}

void FailureDetector::leave(int rank, Time now) {
  if (ranks_.erase(rank) == 0) return;
  gone_.insert(rank);
  begin_anew(now);
}

void FailureDetector::begin_anew(Time now) {
  for (auto& [number, rank] : ranks_) rank.progressed = now;
}

std::optional<milliseconds> FailureDetector::period() const {
  if (ranks_.empty()) return std::nullopt;
  return std::max(milliseconds(1), shortest() / 4);
}

milliseconds FailureDetector::shortest() const {
  milliseconds every = milliseconds::max();
  for (const auto& [number, rank] : ranks_) every = std::min(every, rank.last.every);
  return every;
}

FailureDetector::Time FailureDetector::newest() const {
  Time newest{};
  for (const auto& [number, rank] : ranks_) newest = std::max(newest, rank.heard);
  return newest;
}

void FailureDetector::forgive(Time::duration gap, Time now) {
  for (auto& [number, rank] : ranks_) {
    rank.heard = std::min(rank.heard + gap, now);
    rank.progressed = std::min(rank.progressed + gap, now);
  }
}

const std::optional<FailureDetector::Finding>& FailureDetector::look(Time now) {
  if (!ranks_.empty() && looked_ != Time{} && now - looked_ > shortest()) forgive(now - looked_, now);
  looked_ = now;
  if (finding_ || ranks_.empty()) return finding_;
  finding_ = silent(now);
  if (!finding_) finding_ = stuck(now);
  return finding_;
}

std::string FailureDetector::name(int rank) const {
  const Beat& last = ranks_.at(rank).last;
  const std::string who =
      last.role.empty() ? fmt::format("rank {}", rank) : fmt::format("{}, rank {}", last.role, rank);
  return last.place.empty() ? who : fmt::format("{} ({})", who, last.place);
}

std::vector<int> FailureDetector::silent_ranks(Time now) const {
  std::vector<int> silent;
  for (const auto& [number, rank] : ranks_) {
    if (now - rank.heard > kMissed * rank.last.every) silent.push_back(number);
  }
  return silent;
}

// Several ranks fall silent together when their host does. Spare ones are named if nobody else is at fault.
std::optional<FailureDetector::Finding> FailureDetector::silent(Time now) const {
  Finding finding{.ranks = silent_ranks(now)};
  if (finding.ranks.empty() || !may_be_found(finding.ranks, now)) return std::nullopt;
  const auto spare = [&](int rank) { return ranks_.at(rank).last.spare; };
  if (!std::all_of(finding.ranks.begin(), finding.ranks.end(), spare)) std::erase_if(finding.ranks, spare);
  for (const int number : finding.ranks) {
    const Rank& rank = ranks_.at(number);
    if (!finding.text.empty()) finding.text += fmt::format("; and {}", name(number));
    if (finding.text.empty())
      finding.text = silence_text(name(number), now - rank.heard, rank.last.every, rank.last.step);
  }
  return finding;
}

bool FailureDetector::owes(int rank) const {
  const Beat& last = ranks_.at(rank).last;
  return !last.left && !last.spare;
}

bool FailureDetector::may_be_found(const std::vector<int>& silent, Time now) const {
  if (silent.size() == ranks_.size()) {
    const auto forgiven = [&](const auto& one) {
      const milliseconds deadline = one.second.last.deadline;
      return deadline.count() == 0 || now - one.second.heard <= deadline;
    };
    const auto elsewhere = [](const auto& one) { return one.second.last.elsewhere; };
    const bool is_pause = gone_.empty() && !std::all_of(ranks_.begin(), ranks_.end(), elsewhere);
    const bool needed =
        std::any_of(silent.begin(), silent.end(), [&](int rank) { return !ranks_.at(rank).last.spare; });
    return needed && !is_pause && std::none_of(ranks_.begin(), ranks_.end(), forgiven);
  }
  if (now - newest() > shortest() * 3 / 2) return false;  // perhaps all are, whose beats were not in step
  return std::any_of(silent.begin(), silent.end(), [&](int rank) { return owes(rank); }) || !anybody_works(silent);
}

bool FailureDetector::anybody_works(const std::vector<int>& but) const {
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& one) {
    return !one.second.last.ends() && std::find(but.begin(), but.end(), one.first) == but.end();
  });
}

bool FailureDetector::may_be_told(int rank) const {
  const auto found = ranks_.find(rank);
  const bool ends = found != ranks_.end() && found->second.last.ends();
  return !ends || !anybody_works(finding_ ? finding_->ranks : std::vector<int>());
}

std::optional<FailureDetector::Finding> FailureDetector::stuck(Time now) const {
  Finding finding;
  std::size_t waiting = 0, ended = 0;
  std::string where;
  Seconds longest{0};
  for (const auto& [number, rank] : ranks_) {
    if (rank.last.left) {  // the rank works alone, as long as it likes, or lets the others do so
      ended += rank.last.waiting ? 1 : 0;
      continue;
    }
    const bool late = rank.last.deadline.count() > 0 && now - rank.progressed > rank.last.deadline;
    if (!late) continue;
    longest = std::max<Seconds>(longest, now - rank.progressed);
    if (rank.last.waiting) {
      ++waiting;
      continue;
    }
    finding.ranks.push_back(number);
    where += fmt::format("{}{}{} {}", where.empty() ? "" : ", ", name(number),
                         rank.last.doing.empty() ? "" : " in the " + rank.last.doing, after(rank.last.step));
  }
  if (waiting == 0) return std::nullopt;
  if (!finding.ranks.empty()) {
    finding.text = fmt::format("{}{}: no progress for {:.1f} s, though it lives and others wait for it", kSupervision,
                               where, longest.count());
    return finding;
  }
  if (waiting + ended < ranks_.size() || ranks_.size() == 1) return std::nullopt;
  // One call may take long over a slow link, and what it moves is not seen here.
  const milliseconds deadline = ranks_.begin()->second.last.deadline;
  if (longest <= kUncountedDeadlines * deadline) return std::nullopt;
  for (const auto& [number, rank] : ranks_) finding.ranks.push_back(number);
  finding.text =
      fmt::format("{}all {} ranks have waited for each other for {:.1f} s, {} {}", kSupervision, ranks_.size(),
                  longest.count(), name(ranks_.begin()->first), after(ranks_.begin()->second.last.step));
  return finding;
}

}  // namespace starling::dist
