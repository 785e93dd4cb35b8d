#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

namespace starling {

enum class ProgressMode { automatic, bar, plain, json, off };

ProgressMode parse_progress_mode(std::string_view text);  // auto, bar, plain, json, off; throws on others

struct ProgressMetric {
  std::string_view name;
  double value = 0;
};

struct ProgressState {
  std::int64_t epoch = 0;  // the first is 0
  std::int64_t epochs = 1;
  std::int64_t sample = 0;   // of this epoch, done
  std::int64_t samples = 0;  // in an epoch; 0: not known
  std::int64_t step = 0;     // done
  std::int64_t left = -1;    // samples to the end of the run; -1: as the epochs say
  double loss = 0;
  double lr = 0;                              // 0: not shown
  std::span<const ProgressMetric> metrics{};  // read during the call only
};

struct ProgressOptions {
  ProgressMode mode = ProgressMode::automatic;  // bar on a terminal, plain elsewhere
  std::ostream* out = nullptr;                  // null: standard error
  int columns = 0;                              // 0: of the terminal, whose changes are followed
  double plain_every_s = 5;                     // between lines of plain and json
  std::function<double()> now{};                // seconds; null: the steady clock
};

// One line that tells how a run is doing: redrawn in place up to ten times a second on a terminal, else whole lines
// or objects of JSON every few seconds. update() is cheap and allocates nothing unless something is drawn. Use from one
// thread.
class Progress {
 public:
  explicit Progress(ProgressOptions options);

  void update(const ProgressState& state);
  // So many seconds were not spent on training, such as those of an evaluation: speeds do not count them.
  void leave_out(double seconds);
  double now() const { return options_.now(); }
  void finish(const ProgressState& state);  // draws the last state and ends the line
  void note(std::string_view text);  // a line of its own in every mode; {"note": …} in JSON; the bar goes on below it

  ProgressMode mode() const { return options_.mode; }  // never automatic

 private:
  void measure(const ProgressState& state, double now);
  void draw(const ProgressState& state);

  ProgressOptions options_;
  bool started_ = false;
  bool line_open_ = false;
  double first_time_ = 0;
  double drawn_time_ = 0;
  std::int64_t first_done_ = 0;
  std::int64_t drawn_done_ = 0;
  double rate_ = 0;  // samples a second, smoothed
};

// The text of a line: with a bar and cut to `columns` when that is above 0. What matters least goes first when the line
// is too long: the bar, the learning rate, then the end.
std::string format_progress(const ProgressState& state, double rate, int columns);
// The same as a JSON object on one line; what is not known or not finite is null.
std::string format_progress_json(const ProgressState& state, double rate);
std::string format_duration(double seconds);  // 0:07, 12:34, 1:02:03; "-" when unknown

}  // namespace starling
