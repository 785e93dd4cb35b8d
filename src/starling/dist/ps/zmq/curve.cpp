#include "starling/dist/ps/zmq/curve.h"

#include <zmq.h>

#include "starling/base/error.h"
#include "starling/base/hash/sha256.h"

namespace starling::dist::ps {

CurveKeys derive_keys(const std::string& secret, const std::string& side) {
  const Digest256 digest = hmac_sha256(secret, "starling ps curve " + side);
  char own_secret[41], own_public[41];
  check(zmq_z85_encode(own_secret, digest.data(), digest.size()) != nullptr &&
            zmq_curve_public(own_public, own_secret) == 0,
        "[ps] expected a ZeroMQ with CURVE for servers beyond this host, got one without");
  return {own_secret, own_public};
}

bool beyond_host(const std::string& address) {
  if (!address.starts_with("tcp://")) return false;
  const std::string host = address.substr(6);
  return !host.starts_with("127.") && !host.starts_with("localhost:") && !host.starts_with("[::1]:");
}

}  // namespace starling::dist::ps
