#pragma once

#include <cstdint>
#include <string>

namespace starling {

// What a rank says of itself when it fails or is ended, where something other than `starling launch` started it
// (mpirun, srun): it may be waiting for a rank that has died, and gets no other chance to tell how far the run was. Of
// the whole process, as a signal handler can reach nothing else. Nothing is written unless prepared.
void prepare_last_words(int rank, const std::string& host);
void note_last_step(std::int64_t step) noexcept;

// One line on stderr: "starling: rank 2 on alpha is ended by SIGTERM after step 37". For signal handlers.
void write_last_words(int signal) noexcept;

// The same for a rank that fails by itself; the first time only.
void write_failure() noexcept;

}  // namespace starling
