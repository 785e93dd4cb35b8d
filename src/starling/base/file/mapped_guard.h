#pragma once

#include <cstddef>
#include <string>

namespace starling {

// Guard of mapped files against SIGBUS, which a read beyond the end of a file that was cut off meanwhile raises, as
// does a disk that fails. The signal handler puts zero pages in place of what cannot be read and marks the file;
// readers call check_mapped() before using what they have read. Signals elsewhere go to the handler that was
// there before. Behind the new end of the file, but in the page that holds it, a file reads as zeros without a signal.

// Begins to guard bytes; `name` is that of the file in messages. A process guards up to kMostGuarded files at a time;
// others end the process as before.
inline constexpr std::size_t kMostGuarded = 4096;
void guard_mapped(const void* begin, std::size_t size, const std::string& name);
void unguard_mapped(const void* begin);

// Throws "[file] expected …" if `data` lies in a mapped file of which a part could not be read, and names it; readers
// of other files, and of memory, go on. Costs one load while there is no such file.
void check_mapped(const void* data);

}  // namespace starling
