#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "starling/base/result.h"
#include "starling/dist/comm/rank_progress.h"

namespace starling::dist {

// Deadlines of progress that work gets whose progress cannot be counted, and a call that all ranks wait in.
inline constexpr int kUncountedDeadlines = 12;

// One heartbeat of a rank: how it is supervised, and its signs of life.
struct Beat {
  std::chrono::milliseconds every{2'000};       // to the next beat
  std::chrono::milliseconds deadline{300'000};  // for progress that others wait for; 0: none
  std::uint64_t progress = 0;                   // RankProgress::count
  bool waiting = false;                         // for other ranks
  bool left = false;                            // true: left its world in good order, and only its silence counts
  bool spare = false;      // true: the others go on without this rank, whose silence is no fault of the job
  std::int64_t step = -1;  // last finished step; -1: none
  std::string role{};      // "server 1"; empty: none but its rank
  std::string place{};     // "pid 4711 on alpha"
  std::string doing{};     // "evaluation"; empty: nothing special
  bool elsewhere = false;  // on another host than the judge; known to who hears it, never sent

  bool ends() const { return left && waiting; }  // the process only waits for the others to end
};
Beat beat_of(const RankProgress& rank_progress, std::chrono::milliseconds deadline);
std::string write_beat(const Beat& beat);
Result<Beat> read_beat(std::string_view text);

// Judges by their heartbeats which rank of a job holds up the others. Two faults: silence, no beat for three times its
// period (the process is stopped, cut off or dead); and no progress for the deadline though heartbeats go on (hung I/O,
// an endless loop) while another rank waits that long, which one that has left its world never does. Pauses of the
// whole job are forgiven: a gap between two looks means that the judge itself was stopped, and a time without any beat
// that all ranks were; once a rank has gone, those that stay are forgiven for their deadline. A silent rank that has
// left its world owes the others nothing but its end: it is found once all others that live wait for that, since a
// finding ends the job. So it is with a spare one, whose silence costs the others nothing. Ranks of other hosts that
// are silent all at once may have been cut off: they are forgiven for their deadline. One thread at a time.
class FailureDetector {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr int kMissed = 3;  // beats

  struct Finding {
    std::vector<int> ranks{};  // at fault
    std::string text{};        // begins with kSupervision; one line
  };

  void beat(int rank, Beat beat, Time now);
  void leave(int rank,
             Time now);  // the rank has gone; the time of the others begins anew, as their work may depend on it

  // Looks at all ranks. Call it at least every period(). The first finding stays.
  const std::optional<Finding>& look(Time now);
  std::optional<std::chrono::milliseconds> period() const;  // none: no rank beats

  // True if this rank should be told what is found now. One that only waits for the others to end is told once no rank
  // works any more: its own end, which follows, would be theirs.
  bool may_be_told(int rank) const;

 private:
  struct Rank {
    Beat last{};
    Time heard{}, progressed{};
  };

  void forgive(Time::duration gap, Time now);
  void begin_anew(Time now);
  std::chrono::milliseconds shortest() const;
  Time newest() const;
  std::optional<Finding> silent(Time now) const;
  std::vector<int> silent_ranks(Time now) const;
  bool owes(int rank) const;
  bool may_be_found(const std::vector<int>& silent, Time now) const;
  bool anybody_works(const std::vector<int>& but) const;
  std::optional<Finding> stuck(Time now) const;
  std::string name(int rank) const;

  std::map<int, Rank> ranks_;
  std::set<int> gone_;
  Time looked_{};
  std::optional<Finding> finding_;
};

// Finding about a silent rank. `who`: "rank 2 (pid 4711 on alpha)".
std::string silence_text(std::string_view who, std::chrono::duration<double> since, std::chrono::milliseconds every,
                         std::int64_t step);

}  // namespace starling::dist
