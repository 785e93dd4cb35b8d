#pragma once

#include <string>

namespace starling::dist::ps {

// Key pair of CURVE in the text form of ZeroMQ (Z85).
struct CurveKeys {
  std::string secret, own;  // own: the public one
};

// Keys of a side ("server", "worker") from the job's secret. The public key of the server is derived from the secret
// too and never sent in the clear: who does not know the secret cannot even begin a handshake.
CurveKeys derive_keys(const std::string& secret, const std::string& side);

// True for addresses that leave this host, or may.
bool beyond_host(const std::string& address);

}  // namespace starling::dist::ps
