// SPDX-License-Identifier: Apache-2.0
// The module tare._tare (public interface: tare/__init__.py): arrays in and out of Python, and turns to compute.
#include "tools/python/module.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "kernels/product/library_settings.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/mapped_file.h"

namespace nb = nanobind;

namespace tare {
namespace {

std::mutex turn_mutex;
std::atomic<bool> used = false, forked = false;  // by any turn; after one

std::mutex& TurnMutex() {
  if (forked)
    Fail(
        "tare: got a process that was forked after tare was used, whose threads are gone; try "
        "multiprocessing.get_context('spawn')");
  used = true;
  return turn_mutex;
}

struct sigaction of_python;  // its handler of SIGINT, while a turn on the main thread has another

// Whether Ctrl-C now also requests a stop; not in a program that ignores or ends by it, nor in other threads' calls.
bool ListenToInterrupts() {
  if (gettid() != getpid() || sigaction(SIGINT, nullptr, &of_python) != 0) return false;
  if ((of_python.sa_flags & SA_SIGINFO) != 0 || of_python.sa_handler == SIG_DFL || of_python.sa_handler == SIG_IGN)
    return false;
  struct sigaction both = of_python;
  both.sa_handler = [](int signal) {
    RequestStop();
    of_python.sa_handler(signal);
  };
  both.sa_flags |= SA_ONSTACK;  // parallel.h
  return sigaction(SIGINT, &both, nullptr) == 0;
}

// Some buffers have no strides, whatever is asked of them (numpy.datetime64's, of one value), and nanobind reads them.
bool HasStrides(nb::handle object) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return true;
  Py_buffer view;
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_RECORDS_RO) != 0) {
    PyErr_Clear();
    return true;  // nothing to read
  }
  const bool has = view.ndim == 0 || (view.shape != nullptr && view.strides != nullptr);
  PyBuffer_Release(&view);
  return has;
}

// An option of the program, "--formats", is an argument here.
std::string WithArguments(const std::string& message) {
  std::string text = " " + message;
  for (size_t at; (at = text.find(" --")) != text.npos;) text.erase(at + 1, 2);
  return text.substr(1);
}

void Translate(const std::exception_ptr& caught, void*) {
  try {
    std::rethrow_exception(caught);
  } catch (const Interrupted&) {
    if (PyErr_CheckSignals() == 0) PyErr_SetNone(PyExc_KeyboardInterrupt);
  } catch (const Error& error) {
    PyErr_SetString(PyExc_ValueError, WithArguments(error.what()).c_str());
  }
}

}  // namespace

AnyArray ArrayOf(nb::handle object, const std::string& where) {
  AnyArray array;
  if (!HasStrides(object) || !nb::try_cast(object, array, false)) {
    PyErr_Clear();
    std::string type;
    if (nb::hasattr(object, "dtype")) {
      const nb::object dtype = object.attr("dtype");
      type = Formatted(" of {}", nb::str(nb::handle(dtype)).c_str());
    }
    Fail(
        "{}: got {}{}, expected an array of numbers in CPU memory that supports the buffer protocol or DLPack; try "
        "numpy.asarray(x), x.astype('float32') or x.cpu()",
        where, nb::cast<std::string>(object.type().attr("__name__")), type);
  }
  if (array.device_type() != nb::device::cpu::value)
    Fail("{}: got an array on device type {}, expected CPU memory (1); try x.cpu()", where, array.device_type());
  return array;
}

AnyArray FloatsOf(nb::handle object, const std::string& where, size_t dimensions, FloatTypes types) {
  AnyArray array = ArrayOf(object, where);
  const std::string type = TypeName(array.dtype());
  if (type != "float32" && (types == FloatTypes::kF32 || (type != "float16" && type != "bfloat16")))
    Fail("{}: got {}, expected float32{}; try x.astype('float32'), or x.float() of a tensor", where, type,
         types == FloatTypes::kF32 ? "" : ", float16 or bfloat16");
  if (array.ndim() != dimensions)
    Fail("{}: got shape {}, expected {} dimensions", where, ShapeText(ShapeOf(array)), dimensions);
  if (dimensions > 0 && array.shape(dimensions - 1) > 1 && array.stride(dimensions - 1) != 1)
    Fail("{}: got a stride of {} in the last dimension, expected 1; try numpy.ascontiguousarray(x)", where,
         array.stride(dimensions - 1));
  if (reinterpret_cast<uintptr_t>(array.data()) % array.itemsize() != 0)
    Fail("{}: got values at an address that is no multiple of {}, expected aligned ones; try x.copy()", where,
         array.itemsize());
  return array;
}

std::string TypeName(nb::dlpack::dtype type) {
  using enum nb::dlpack::dtype_code;
  const char* name = type.code == static_cast<uint8_t>(Int)       ? "int"
                     : type.code == static_cast<uint8_t>(UInt)    ? "uint"
                     : type.code == static_cast<uint8_t>(Float)   ? "float"
                     : type.code == static_cast<uint8_t>(Bfloat)  ? "bfloat"
                     : type.code == static_cast<uint8_t>(Complex) ? "complex"
                     : type.code == static_cast<uint8_t>(Bool)    ? "bool"
                                                                  : "type of another kind, bits ";
  return Formatted("{}{}", name, type.bits);
}

std::vector<int64_t> ShapeOf(const AnyArray& array) {
  std::vector<int64_t> shape;
  for (size_t i = 0; i < array.ndim(); ++i) shape.push_back(static_cast<int64_t>(array.shape(i)));
  return shape;
}

bool IsContiguous(const AnyArray& array) {
  int64_t stride = 1;
  for (size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) != 1 && array.stride(i) != stride) return false;
    stride *= static_cast<int64_t>(array.shape(i));
  }
  return true;
}

DType FileType(const AnyArray& array, const char* where) {
  std::string name = TypeName(array.dtype());
  if (name == "bfloat16") return DType::kBF16;
  if (name.starts_with("bool")) return DType::kBool;
  const std::string file_name = (name.starts_with("float")  ? "F"
                                 : name.starts_with("uint") ? "U"
                                                            : "I") +
                                Formatted("{}", int{array.dtype().bits});
  const std::optional<DType> type = ParseDType(file_name);
  if (!type || name.starts_with("complex") || name.starts_with("type"))
    Fail("{}: got {}, expected floating point, integers or booleans", where, name);
  return *type;
}

NewArray::NewArray(const std::vector<int64_t>& shape) {
  const std::optional<int64_t> count = ElementCount(shape);
  if (!count) Fail("got shape {}, expected one that fits in memory", ShapeText(shape));
  auto buffer = std::make_unique<AlignedBuffer<float>>(static_cast<size_t>(*count));
  values = buffer->data();
  const nb::capsule owner(buffer.get(), [](void* p) noexcept { delete static_cast<AlignedBuffer<float>*>(p); });
  buffer.release();
  const std::vector<size_t> sizes(shape.begin(), shape.end());
  object = nb::cast(nb::ndarray<nb::numpy, float>(values, sizes.size(), sizes.data(), owner));
}

bool ForkedAfterTurn() { return forked; }

Turn::Turn(int threads) : lock_(TurnMutex()) {
  SetThreads(threads);
  listens_ = ListenToInterrupts();
}

Turn::~Turn() {
  if (listens_) sigaction(SIGINT, &of_python, nullptr);
  ForgetStop();
}

std::span<std::byte> Turn::Workspace(size_t bytes) {
  static AlignedBuffer<std::byte> kept;  // from call to call: touching fresh memory would add to every call's time
  kept.Reserve(bytes);
  return kept.span();
}

}  // namespace tare

NB_MODULE(_tare, module) {
  module.attr("version") = TARE_VERSION;
  nb::register_exception_translator(tare::Translate);
  tare::OnNotice([](const std::string& text) { std::fprintf(stderr, "tare: %s\n", text.c_str()); });
  tare::OpenFilesAs(tare::FileMemory::kCopied);
  pthread_atfork(nullptr, nullptr, [] { tare::forked = tare::used.load(); });  // before the first turn
  tare::MeetOneDnn();
  tare::AddAttention(module);
  tare::AddQuantize(module);
  tare::AddFiles(module);
}
