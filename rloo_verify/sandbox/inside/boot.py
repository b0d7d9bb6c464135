# The command line of both processes inside: reads the source of the package from descriptor 0 and starts a part of it.
import json, sys, types, os
size = int.from_bytes(os.read(0, 4), "big")
data = b""
while len(data) < size:
    data += os.read(0, min(size - len(data), 1 << 16))
bundle = json.loads(data)
package = types.ModuleType("rloo_inside")
package.__path__ = []
sys.modules["rloo_inside"] = package
for name, source in bundle["sources"]:
    module = types.ModuleType("rloo_inside." + name)
    module.__package__ = "rloo_inside"
    sys.modules[module.__name__] = module
    setattr(package, name, module)
    exec(compile(source, name + ".py", "exec"), module.__dict__)
if sys.argv[1] == "zygote":
    package.zygote.main(bundle["settings"])
else:
    command = [sys.executable, *sys.orig_argv[1:-1], "zygote"]
    package.controller.main(bundle["settings"], (command, size.to_bytes(4, "big") + data))
