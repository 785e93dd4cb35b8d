#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

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

// Runs `starling <arguments>` in a shell with a working folder, and waits.
inline Ran run_in(const std::filesystem::path& where, const std::string& arguments) {
  const TestFolder folder("cli-run");
  const auto out = folder.path() / "out";
  const auto err = folder.path() / "err";
  const std::string command = "cd '" + where.string() + "' && '" + program_path().string() + "' " + arguments + " >'" +
                              out.string() + "' 2>'" + err.string() + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, file_text(out), file_text(err)};
}
inline Ran run_starling(const std::string& arguments) { return run_in(".", arguments); }

}  // namespace starling::testing
