// SPDX-License-Identifier: Apache-2.0
// numpy's .npz: a ZIP archive of .npy files (numpy.lib.format, versions 1 to 3), stored or deflated. Python objects are
// not read, so no code in a file is run.
#pragma once

#include <map>

#include "experiments/arrays/array_file.h"

struct zip;

namespace tare {

class NpzArrays : public ArrayFile {
 public:
  explicit NpzArrays(const std::filesystem::path& path);

 protected:
  ArrayValues Load(const ArrayInfo& array) const override;

 private:
  struct Close {
    void operator()(zip* archive) const;
  };
  struct Member {
    uint64_t index = 0, bytes = 0;  // in the archive
    size_t header = 0;              // bytes before the values
    ArrayInfo array;
    bool columns_first = false;  // Fortran order
  };

  std::vector<std::byte> Bytes(const Member& member, size_t count) const;

  std::unique_ptr<zip, Close> archive_;
  std::map<std::string, Member> members_;
};

}  // namespace tare
