"""The command line of both processes inside: reads the package's source from descriptor 0 and starts a part of it."""

import json
import os
import sys
import types

size = int.from_bytes(os.read(0, 4), "big")
data = b""
while len(data) < size:
    data += os.read(0, min(size - len(data), 1 << 16))
bundle = json.loads(data)
package = types.ModuleType("rloo_inside")
package.__path__ = []
sys.modules["rloo_inside"] = package
for name, source in bundle["sources"][sys.argv[1]]:
    module = types.ModuleType("rloo_inside." + name)
    module.__package__ = "rloo_inside"
    sys.modules[module.__name__] = module
    setattr(package, name, module)
    exec(compile(source, name + ".py", "exec"), module.__dict__)
if sys.argv[1] == "zygote":
    package.zygote.main(bundle["settings"])
else:
    # Not -I, which ignores PYTHONHASHSEED; the environment is the controller's own and clean.
    command = [sys.executable, "-P", "-s", "-X", "utf8", "-c", sys.orig_argv[-2], "zygote"]
    package.controller.main(bundle["settings"], (command, size.to_bytes(4, "big") + data))
