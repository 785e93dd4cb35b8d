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
  std::int64_t epoch = 0;  // from 0
  std::int64_t epochs = 1;
  std::int64_t sample = 0;   // samples of this epoch done
  std::int64_t samples = 0;  // samples per epoch; 0: unknown
  std::int64_t step = 0;     // steps done
  std::int64_t left = -1;    // samples to the end of the run; -1: follows from the epochs
  double loss = 0;
  double lr = 0;                              // learning rate; 0: not shown
  std::span<const ProgressMetric> metrics{};  // used during the call only
};

struct ProgressOptions {
  ProgressMode mode = ProgressMode::automatic;  // bar on a terminal, plain elsewhere
  std::ostream* out = nullptr;                  // null: standard error
  int columns = 0;                              // 0: the terminal's current width
  double plain_every_s = 5;                     // seconds between lines in plain and json mode
  std::function<double()> now{};                // clock in seconds; null: the steady clock
};

// Progress display: one line redrawn in place up to ten times a second on a terminal, else whole lines or JSON objects
// every few seconds. update() is cheap and allocates nothing unless something is drawn. Use from one thread.
class Progress {
 public:
  explicit Progress(ProgressOptions options);
  ~Progress();  // ends an open line, so that an error is told on a line of its own
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const ProgressState& state);
  // Excludes `seconds` from the speed, such as those of an evaluation.
  void leave_out(double seconds);
  double now() const { return options_.now(); }
  void finish(const ProgressState& state);  // draws the last state and ends the line
  // Prints a line above the bar, broken between words where the terminal ends; {"note": …} in JSON mode.
  void note(std::string_view text);

  ProgressMode mode() const { return options_.mode; }  // never automatic

 private:
  void measure(const ProgressState& state, double now);
  void draw(const ProgressState& state);
  std::size_t columns() const;  // of the terminal

  ProgressOptions options_;
  bool started_ = false;
  bool line_open_ = false;
  double first_time_ = 0;
  double drawn_time_ = 0;
  std::int64_t first_done_ = 0;
  std::int64_t drawn_done_ = 0;
  double rate_ = 0;  // samples per second, smoothed
};

// Text of a progress line. columns > 0: with a bar, in this width: where the line is too long the bar gets shorter,
// then the learning rate goes, then metrics from the last one on, then the bar; fields are shown whole or not at all.
// An evaluated loss is called eval_loss beside the loss of training.
std::string format_progress(const ProgressState& state, double rate, int columns);
// Progress as a JSON object on one line; unknown and non-finite values are null.
std::string format_progress_json(const ProgressState& state, double rate);
std::string format_duration(double seconds);  // 0:07, 12:34, 1:02:03; "-" if unknown

}  // namespace starling
