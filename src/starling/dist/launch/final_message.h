#pragma once

#include <cstdint>
#include <string>

namespace starling::dist {

// Final message of a rank that fails or is terminated under a launcher other than `starling launch` (mpirun, srun): it
// may be waiting for a dead rank and has no other way to report its last step. Global to the process, as a signal
// handler can reach nothing else. Nothing is written unless prepared.
void prepare_final_message(int rank, const std::string& host);
void note_last_step(std::int64_t step) noexcept;

// Writes one line to stderr: "starling: rank 2 on alpha is ended by SIGTERM after step 37". Async-signal-safe.
void write_final_message(int signal) noexcept;

// Tells of a rank that fails by itself; the first time only.
void write_failure() noexcept;

}  // namespace starling::dist
