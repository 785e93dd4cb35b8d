#pragma once

#include <map>
#include <string>
#include <vector>

namespace starling::dist {

// Script for a shell on another host, sent through its stdin so that nothing appears on a command line: variables,
// folder and program. The shell keeps listening: a line with a signal name is forwarded to the program's group, and
// when the connection ends the program is killed. The shell exits with the program's code, or 128 + its signal.
std::string remote_script(const std::vector<std::string>& argv, const std::map<std::string, std::string>& variables,
                          const std::string& folder);

// Text in single quotes, for a POSIX shell.
std::string quoted(const std::string& text);

// Command line: `ssh` and options, split at spaces, the host, and the shell that reads the script.
std::vector<std::string> remote_command(const std::string& ssh, const std::string& host);

}  // namespace starling::dist
