#pragma once

#include <map>
#include <string>
#include <vector>

namespace starling {

// What a shell on another host is told through its stdin, so that nothing of it appears on a command line: variables,
// folder and program. It goes on listening: a line with the name of a signal passes that on to the program's group, and
// when the connection ends the program is killed. The shell ends with the program's code, or 128 + its signal.
std::string remote_script(const std::vector<std::string>& argv, const std::map<std::string, std::string>& variables,
                          const std::string& folder);

// In single quotes, for a POSIX shell.
std::string quoted(const std::string& text);

// `ssh` and options, cut at spaces, the host, and the shell that reads the script.
std::vector<std::string> remote_command(const std::string& ssh, const std::string& host);

}  // namespace starling
