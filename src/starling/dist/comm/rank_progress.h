#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace starling::dist {

// Signs of life of one rank, for its supervision (health/failure_detector.h). Any thread; nothing here blocks.
class RankProgress {
 public:
  // Counts a piece of work: a finished call, a batch, an epoch of pre-training. A rank that others wait for and that
  // counts none for the deadline of its world is taken for hung.
  void progress() { progress_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t count() const { return progress_.load(std::memory_order_relaxed); }

  void set_step(std::int64_t step) { step_.store(step, std::memory_order_relaxed); }
  std::int64_t step() const { return step_.load(std::memory_order_relaxed); }  // -1: none yet

  bool waiting() const { return waits_.load(std::memory_order_relaxed) > 0; }
  const char* doing() const { return doing_.load(std::memory_order_relaxed); }  // never null; empty: nothing special

  // Scope in which a thread of this rank waits for other ranks, who are then responsible. null: no effect.
  class Waiting {
   public:
    explicit Waiting(RankProgress* rank_progress) : rank_progress_(rank_progress) {
      if (rank_progress_ != nullptr) rank_progress_->waits_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Waiting() {
      if (rank_progress_ != nullptr) rank_progress_->waits_.fetch_sub(1, std::memory_order_relaxed);
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    RankProgress* rank_progress_;
  };

  // Scope of work of this rank whose progress cannot be counted, such as reading files: it gets longer. null: no
  // effect.
  bool uncounted() const { return uncounted_.load(std::memory_order_relaxed) > 0; }
  class Uncounted {
   public:
    explicit Uncounted(RankProgress* rank_progress) : rank_progress_(rank_progress) {
      if (rank_progress_ != nullptr) rank_progress_->uncounted_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Uncounted() {
      if (rank_progress_ == nullptr) return;
      rank_progress_->progress();
      rank_progress_->uncounted_.fetch_sub(1, std::memory_order_relaxed);
    }
    Uncounted(const Uncounted&) = delete;
    Uncounted& operator=(const Uncounted&) = delete;

   private:
    RankProgress* rank_progress_;
  };

  // Scope of special work, for messages: "evaluation", "save". The text must be a literal. null: no effect.
  class Doing {
   public:
    Doing(RankProgress* rank_progress, const char* what) : rank_progress_(rank_progress) {
      if (rank_progress_ != nullptr) before_ = rank_progress_->doing_.exchange(what, std::memory_order_relaxed);
      if (rank_progress_ != nullptr) rank_progress_->progress();
    }
    ~Doing() {
      if (rank_progress_ != nullptr) rank_progress_->doing_.store(before_, std::memory_order_relaxed);
    }
    Doing(const Doing&) = delete;
    Doing& operator=(const Doing&) = delete;

   private:
    RankProgress* rank_progress_;
    const char* before_ = "";
  };

 private:
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<std::int64_t> step_{-1};
  std::atomic<int> waits_{0}, uncounted_{0};
  std::atomic<const char*> doing_{""};
};

// Beginning of what the supervision finds; such a text, up to the end of its line, names the rank at fault itself.
inline constexpr std::string_view kSupervision = "[supervision] ";

// The finding quoted in an error text; empty if it quotes none.
std::string finding_in(std::string_view text);

}  // namespace starling::dist
