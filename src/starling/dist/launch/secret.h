#pragma once

#include <filesystem>
#include <string>

#include "starling/dist/launch/place.h"

namespace starling {

// What the ranks of a job know and nobody else does. It travels in the environment or in a file, never on a command
// line, and is never printed.
inline constexpr std::size_t kLeastSecret = 16;  // characters: shorter ones can be guessed

// From the file if one is named, else from STARLING_SECRET, else from the file that STARLING_SECRET_FILE names; empty
// when there is none. A short secret and a file that other users can read are refused.
std::string read_secret(const std::filesystem::path& file = {}, const Variables& variables = process_environment());

// A fresh one, of 64 hexadecimal digits.
std::string make_secret();

// Bytes nobody can foretell.
std::string random_bytes(std::size_t count);

}  // namespace starling
