#include "starling/dist/launch/launcher/remote_shell.h"

#include <fmt/format.h>

#include <sstream>

namespace starling::dist {

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string remote_script(const std::vector<std::string>& argv, const std::map<std::string, std::string>& variables,
                          const std::string& folder) {
  std::string set, program;
  for (const auto& [name, value] : variables) set += fmt::format("export {}={}\n", name, quoted(value));
  for (const auto& word : argv) program += " " + quoted(word);
  // Braces make the shell read the script to the end before running it, so that later lines go to the watcher. A
  // background command would get an empty stdin, so the watcher reads from a copy. It also ignores SIGINT until it has
  // a handler, and Python then makes none: while it does, SIGTERM is sent in its place (bit 1 of the mask).
  return fmt::format(
      "{{\n{}cd {} || exit 127\nexec 3<&0\n"
      "setsid{} </dev/null 3<&- &\nprogram=$!\n"
      "{{ while read -r signal <&3; do\n"
      "  [ \"$signal\" = INT ] && grep -q '^SigIgn:.*[2367abef]$' \"/proc/$program/status\" && signal=TERM\n"
      "  kill -s \"$signal\" -- \"-$program\" || kill -s \"$signal\" \"$program\"; done\n"
      "  kill -s KILL -- \"-$program\" || kill -s KILL \"$program\"; }} >/dev/null 2>&1 &\nwatcher=$!\n"
      "wait \"$program\"\ncode=$?\nkill -s KILL \"$watcher\" 2>/dev/null\nexit \"$code\"\n}}\n",
      set, quoted(folder), program);
}

std::vector<std::string> remote_command(const std::string& ssh, const std::string& host) {
  std::vector<std::string> argv;
  std::istringstream words(ssh);
  for (std::string word; words >> word;) argv.push_back(word);
  argv.push_back(host);
  argv.push_back("exec /bin/sh");
  return argv;
}

}  // namespace starling::dist
