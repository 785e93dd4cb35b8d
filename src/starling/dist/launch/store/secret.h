#pragma once

#include <filesystem>
#include <string>

#include "starling/dist/launch/rank_info.h"

namespace starling::dist {

// Secret shared by the ranks of a job. Passed in the environment or in a file, never on a command line, and never
// printed.
inline constexpr std::size_t kLeastSecret = 16;  // minimum length in characters: shorter ones can be guessed

// Reads the secret from the file if one is named, else from STARLING_SECRET, else from the file that
// STARLING_SECRET_FILE names; empty if there is none. Short secrets and files readable by other users are refused.
std::string read_secret(const std::filesystem::path& file = {}, const Variables& variables = process_environment());

// Generates a secret of 64 hexadecimal digits.
std::string make_secret();

// Cryptographically random bytes.
std::string random_bytes(std::size_t count);

}  // namespace starling::dist
