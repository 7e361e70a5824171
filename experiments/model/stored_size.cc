// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/stored_size.h"

#include "quant/interchange/foreign_matrix.h"

namespace tare {

StoredSize StoredSizeOf(const Checkpoint& checkpoint) {
  StoredSize size;
  for (const std::string& name : checkpoint.names()) {
    if (const QuantizedMatrix* m = checkpoint.FindQuantized(name)) {
      size.values += static_cast<uint64_t>(m->out * m->in);
      size.bytes += m->Bytes();
    } else if (const ForeignMatrix* f = checkpoint.FindForeign(name)) {
      size.values += static_cast<uint64_t>(f->out() * f->in());
      size.bytes += static_cast<uint64_t>(f->bytes());
    } else {
      const TensorView& tensor = *checkpoint.Find(name);
      size.values += tensor.elements();
      size.bytes += tensor.bytes.size();
    }
  }
  return size;
}

}  // namespace tare
