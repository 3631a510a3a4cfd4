#include "base/stop_request.hpp"

namespace troupe {

namespace {

thread_local const stop_request* heeded = nullptr;

}  // namespace

void heed(const stop_request* stop) { heeded = stop; }

bool stop_asked() { return heeded != nullptr && heeded->requested(); }

tl::unexpected<fault> stopped(std::string_view what) { return run_fault("{}: a stop was requested", what); }

stop_scope::stop_scope(const stop_request& stop) : before_(heeded) { heed(&stop); }

stop_scope::~stop_scope() { heed(before_); }

}  // namespace troupe
