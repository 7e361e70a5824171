// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/stored_size.h"

#include "quant/format/foreign_matrix.h"

namespace tare {

StoredSize StoredSizeOf(const Checkpoint& checkpoint) {
  StoredSize size{.bytes = static_cast<uint64_t>(checkpoint.total_bytes())};
  for (const std::string& name : checkpoint.names()) {
    if (const QuantizedMatrix* m = checkpoint.FindQuantized(name)) {
      size.values += static_cast<uint64_t>(m->out * m->in);
    } else if (const ForeignMatrix* f = checkpoint.FindForeign(name)) {
      size.values += static_cast<uint64_t>(f->out() * f->in());
    } else {
      size.values += checkpoint.Find(name)->elements();
    }
  }
  return size;
}

}  // namespace tare
