#include "starling/train/sweep/trial_process.h"

#include <unistd.h>

#include <array>
#include <system_error>
#include <utility>

namespace starling::train {
namespace {

std::vector<std::string> own_environment() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;
}

std::filesystem::path output_file(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  return folder / "output.txt";
}

}  // namespace

TrialProcess::TrialProcess(const std::vector<std::string>& command, const std::filesystem::path& folder)
    : file_(output_file(folder), std::ios::app), child_({.argv = command, .environment = own_environment()}) {}

void TrialProcess::take(const UniqueFd& from, std::string* last) {
  std::array<char, 4096> buffer;
  for (;;) {
    const auto got = ::read(from.get(), buffer.data(), buffer.size());
    if (got <= 0) return;
    const std::string_view text(buffer.data(), static_cast<std::size_t>(got));
    file_ << text << std::flush;
    if (last == nullptr) continue;
    for (const char c : text) {
      if (c != '\n') {
        partial_ += c;
      } else if (!partial_.empty()) {
        *last = std::exchange(partial_, "");
      }
    }
  }
}

bool TrialProcess::ended() {
  child_.reap();
  const bool over = child_.exit().has_value();  // asked first: what it wrote before its end is taken below
  take(child_.output, nullptr);
  take(child_.error, &last_line_);
  return over;
}

std::string TrialProcess::error() const {
  if (!child_.exit() || child_.exit()->good()) return "";
  constexpr std::string_view kOwn = "starling: ";
  const std::string line = last_line_.starts_with(kOwn) ? last_line_.substr(kOwn.size()) : last_line_;
  return line.empty() ? "its process " + describe(*child_.exit()) : line;
}

}  // namespace starling::train
