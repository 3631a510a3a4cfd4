#include "kernels/backend.hpp"

#include "kernels/cuda_module.hpp"
#include "kernels/devices.hpp"

namespace troupe::kernels {
namespace {

/// The probe is asked first: what it says is plainer than an error of the backend's libraries, and costs less.
backend& load_cuda_backend() {
  if (const device_report report = find_devices(); !report.cuda_usable) throw device_error(report.reason);
  const cuda_symbol symbol = find_cuda_symbol("libtroupe_cuda.so", backend_symbol);
  if (symbol.address == nullptr) throw device_error(symbol.error);
  return reinterpret_cast<backend_function*>(symbol.address)();
}

}  // namespace

backend& cuda_backend() {
  static backend& loaded = load_cuda_backend();
  return loaded;
}

}  // namespace troupe::kernels
