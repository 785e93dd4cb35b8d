#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "starling/base/result.h"
#include "starling/dist/comm/pulse.h"

namespace starling::dist {

// Deadlines of progress that work gets whose progress cannot be counted, and a call that all ranks wait in.
inline constexpr int kUncountedDeadlines = 12;

// One heartbeat of a rank: how it is supervised, and its signs of life.
struct Beat {
  std::chrono::milliseconds every{2'000};       // to the next beat
  std::chrono::milliseconds deadline{300'000};  // for progress that others wait for; 0: none
  std::uint64_t progress = 0;                   // Pulse::count
  bool waiting = false;                         // for other ranks
  std::int64_t step = -1;                       // last finished step; -1: none
  std::string place{};                          // "pid 4711 on alpha"
  std::string doing{};                          // "evaluation"; empty: nothing special
};
Beat beat_of(const Pulse& pulse, std::chrono::milliseconds deadline);
std::string write_beat(const Beat& beat);
Result<Beat> read_beat(std::string_view text);

// Judges by their heartbeats which rank of a job holds up the others. Two faults: silence, no beat for three times its
// period (the process is stopped, cut off or dead); and no progress for the deadline though the heart beats (hung I/O,
// an endless loop) while another rank waits that long. Pauses of the whole job are forgiven: a gap between two looks
// means that the judge itself was stopped, and a time without any beat that everybody was. One thread at a time.
class Vigil {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr int kMissed = 3;  // beats

  struct Finding {
    std::vector<int> ranks{};  // at fault
    std::string text{};        // begins with kSupervision; one line
  };

  void beat(int rank, Beat beat, Time now);
  void leave(int rank, Time now);  // in good order; the others' time begins anew, as what they do may depend on it

  // Looks at all ranks. Call it at least every period(). The first finding stays.
  const std::optional<Finding>& look(Time now);
  std::optional<std::chrono::milliseconds> period() const;  // none: nobody beats

 private:
  struct Rank {
    Beat last{};
    Time heard{}, progressed{};
  };

  void forgive(Time::duration gap, Time now);
  std::chrono::milliseconds shortest() const;
  Time newest() const;
  std::optional<Finding> silent(Time now) const;
  std::optional<Finding> stuck(Time now) const;
  std::string name(int rank) const;

  std::map<int, Rank> ranks_;
  Time looked_{};
  std::optional<Finding> finding_;
};

// What is found about a silent rank. `who`: "rank 2 (pid 4711 on alpha)".
std::string silence_text(std::string_view who, std::chrono::duration<double> since, std::chrono::milliseconds every,
                         std::int64_t step);

}  // namespace starling::dist
