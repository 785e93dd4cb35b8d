#pragma once

#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "train/tiny_fashion.h"

namespace starling::testing {

struct Ran {
  int code = -1;
  std::string out;
  std::string err;
};

// Path of the program of the same build: <build>/tests/test_cli finds <build>/bin/starling.
inline std::filesystem::path program_path() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin" / "starling";
}

inline std::string file_text(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Runs a command line of the shell, with the program in the PATH, in a folder, and waits.
inline Ran run_shell_in(const std::filesystem::path& where, const std::string& line) {
  const TestFolder folder("cli-run");
  const auto out = folder.path() / "out";
  const auto err = folder.path() / "err";
  const std::string command = "cd '" + where.string() + "' && export PATH='" + program_path().parent_path().string() +
                              "':\"$PATH\" && unset COLUMNS && { " + line + "; } >'" + out.string() + "' 2>'" +
                              err.string() + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, file_text(out), file_text(err)};
}

// Waits for a child process, at most so long; then kills it. False: it had to be killed.
inline bool wait_for(pid_t child, int& status, std::chrono::milliseconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (std::chrono::steady_clock::now() < end) {
    if (::waitpid(child, &status, WNOHANG) == child) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return false;
}

// Runs `starling <arguments>` in a shell and waits.
inline Ran run_starling_in(const std::filesystem::path& where, const std::string& arguments) {
  return run_shell_in(where, "'" + program_path().string() + "' " + arguments);
}
inline Ran run_starling(const std::string& arguments) {
  return run_starling_in(std::filesystem::current_path(), arguments);
}

}  // namespace starling::testing
