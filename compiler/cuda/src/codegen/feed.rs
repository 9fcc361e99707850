//! What the feeder of a block and the other threads say to each other.

use super::{Map, Param, Printer};
use crate::grid::{BoxMap, Stmt, WARP};
use tvmtune_ir::dag::DType;
use tvmtune_ir::poly::Poly;

impl Printer<'_> {
    /// The kernel's body, by who does it.
    pub(super) fn roles(&mut self) {
        let kernel = self.kernel;
        if kernel.feeder.is_empty() {
            self.registers();
            self.fragments();
            self.block(&kernel.body);
            return;
        }
        self.rings();
        let threads = kernel.threads;
        let granted = kernel.granted_registers();
        self.open(&format!("if (threadIdx.x >= {threads})"));
        if let Some((_, few)) = granted {
            self.line(&format!("registers_shrink<{few}>();"));
        }
        self.open(&format!("if (threadIdx.x == {threads})"));
        self.turns();
        self.block(&kernel.feeder);
        self.close();
        self.close();
        self.open("else");
        if let Some((many, _)) = granted {
            self.line(&format!("registers_grow<{many}>();"));
        }
        self.turns();
        self.registers();
        self.fragments();
        self.block(&kernel.body);
        self.close();
        if kernel.cluster() > 1 {
            // Others may still write to this block's memory.
            self.line("cluster_sync();");
        }
    }

    /// Declares the barriers, and makes them ready.
    fn rings(&mut self) {
        let kernel = self.kernel;
        self.names.reserve("ring");
        self.line("u64* const ring = reinterpret_cast<u64*>(shared);");
        let cluster = kernel.cluster();
        let warps = kernel.threads.div_ceil(WARP) * cluster;
        self.open("if (threadIdx.x == 0)");
        for ring in &kernel.rings {
            let (full, empty) = (ring.place / 8, ring.place / 8 + ring.depth);
            let depth = ring.depth;
            self.open(&format!("for (int n = 0; n < {depth}; ++n)"));
            self.line(&format!("mbarrier_init(&ring[{full} + n], 1);"));
            self.line(&format!("mbarrier_init(&ring[{empty} + n], {warps});"));
            self.close();
        }
        self.line("mbarrier_fence_init();");
        self.close();
        self.line(if cluster > 1 { "cluster_sync();" } else { "__syncthreads();" });
    }

    /// Declares how far around the rings a thread is.
    fn turns(&mut self) {
        let kernel = self.kernel;
        for (n, ring) in kernel.rings.iter().enumerate() {
            let name = self.names.enter(ring.slot, "slot");
            self.line(&format!("Index {name} = 0;"));
            self.names.reserve(&parity(n));
            self.line(&format!("u32 {} = 0;", parity(n)));
        }
    }

    fn slot(&self, ring: usize) -> String {
        self.poly(&Poly::var(self.kernel.rings[ring].slot)).text
    }

    /// The barrier that says that the slot is full.
    fn full(&self, ring: usize) -> String {
        format!("&ring[{} + {}]", self.kernel.rings[ring].place / 8, self.slot(ring))
    }

    /// The barrier that says that a slot is empty.
    fn empty(&self, ring: usize, slot: &str) -> String {
        let it = &self.kernel.rings[ring];
        format!("&ring[{} + {slot}]", it.place / 8 + it.depth)
    }

    pub(super) fn wait_empty(&mut self, ring: usize) {
        let (empty, full) = (self.empty(ring, &self.slot(ring)), self.full(ring));
        // New barriers count as empty.
        let wait =
            if self.kernel.cluster() > 1 { "mbarrier_wait_cluster" } else { "mbarrier_wait" };
        self.line(&format!("{wait}({empty}, {} ^ 1);", parity(ring)));
        self.line(&format!("mbarrier_expect({full}, {});", self.kernel.rings[ring].bytes));
    }

    pub(super) fn wait_full(&mut self, ring: usize) {
        let full = self.full(ring);
        self.line(&format!("mbarrier_wait({full}, {});", parity(ring)));
    }

    pub(super) fn release(&mut self, ring: usize, before: bool) {
        let (slot, last) = (self.slot(ring), self.kernel.rings[ring].depth - 1);
        let slot = match before {
            true => format!("({slot} == 0 ? {last} : {slot} - 1)"),
            false => slot,
        };
        let empty = self.empty(ring, &slot);
        if self.is_read_by_lanes(ring) {
            self.line("__syncwarp();");
        }
        let cluster = self.kernel.cluster();
        self.line(&match cluster {
            1 => format!("if (threadIdx.x % 32 == 0) mbarrier_arrive({empty});"),
            _ => format!(
                "if (threadIdx.x % 32 < {cluster}) mbarrier_arrive_at({empty}, threadIdx.x % 32);"
            ),
        });
    }

    /// Whether lanes read the slots of a ring on their own; else matrix instructions do, for which
    /// warps wait as a whole.
    fn is_read_by_lanes(&self, ring: usize) -> bool {
        let mut found = false;
        for stmt in &self.kernel.feeder {
            stmt.walk(&mut |it| {
                if let Stmt::CopyBox { map, ring: of, .. } = it {
                    let to = self.kernel.maps[*map].to;
                    found |= *of == ring && self.grid.buffer(to).permuted.is_none();
                }
            });
        }
        found
    }

    pub(super) fn advance(&mut self, ring: usize) {
        let (slot, depth) = (self.slot(ring), self.kernel.rings[ring].depth);
        self.open(&format!("if (++{slot} == {depth})"));
        self.line(&format!("{slot} = 0;"));
        self.line(&format!("{} ^= 1;", parity(ring)));
        self.close();
    }

    pub(super) fn copy_box(
        &mut self,
        map: usize,
        position: &Poly,
        coordinates: &[Poly],
        ring: usize,
    ) {
        let to = self.names.buffer(self.kernel.maps[map].to);
        let (position, full) = (self.poly(position).text, self.full(ring));
        let coordinate = |it: &Poly| format!("int({})", self.poly(it).text);
        // The innermost first.
        let coordinates: Vec<String> = coordinates.iter().rev().map(coordinate).collect();
        let blocks = match self.kernel.maps[map].is_shared {
            true => Some((1_u32 << self.kernel.cluster()) - 1),
            false => None,
        };
        let (map, coordinates) = (self.map_name(map), coordinates.join(", "));
        self.line(&match blocks {
            None => format!("tensor_load(&{to}[{position}], {map}, {full}, {coordinates});"),
            Some(all) => {
                format!("tensor_multicast(&{to}[{position}], {map}, {full}, {all}, {coordinates});")
            }
        });
    }

    pub(super) fn map_name(&self, map: usize) -> String {
        let tensor = self.kernel.maps[map].tensor;
        format!("map_{map}_{}", self.names.buffer(tensor))
    }

    /// The parameters by which the kernel knows what it copies by boxes, of maps of the unit.
    pub(super) fn map_params(&self) -> impl Iterator<Item = Param> + use<> {
        (self.n_maps..self.n_maps + self.kernel.maps.len()).map(Param::Map)
    }

    /// A map as its user encodes it.
    pub(super) fn encoded(&self, map: &BoxMap) -> Map {
        let buffer = self.grid.buffer(map.tensor);
        let mut strides = Vec::new();
        let mut bytes = Poly::constant(buffer.dtype.bytes() as i64);
        for extent in buffer.shape.iter().skip(1).rev() {
            bytes = bytes * extent.clone();
            strides.push(bytes.clone());
        }
        let target = self.grid.buffer(map.to);
        let swizzle = match target.permuted {
            None => 0,
            Some(32) => 1,
            Some(64) => 2,
            Some(_) => 3,
        };
        Map {
            tensor: map.tensor,
            element: if target.is_rounded { TF32 } else { element(buffer.dtype) },
            extents: buffer.shape.iter().rev().cloned().collect(),
            strides,
            // A box is given by all that it reaches over.
            boxes: map
                .extents
                .iter()
                .zip(&map.steps)
                .rev()
                .map(|(n, by)| (n * by) as u32)
                .collect(),
            steps: map.steps.iter().rev().map(|it| *it as u32).collect(),
            swizzle,
        }
    }
}

/// `CU_TENSOR_MAP_DATA_TYPE_TFLOAT32`: `f32` that are rounded while they are copied.
const TF32: u32 = 11;

/// `CUtensorMapDataType`.
fn element(dtype: DType) -> u32 {
    match dtype {
        DType::I8 | DType::U8 | DType::Bool => 0,
        DType::I32 => 3,
        DType::I64 => 5,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::Bf16 => 9,
    }
}

/// The name of the bit that says whether a thread went around a ring an odd number of times.
fn parity(ring: usize) -> String {
    format!("parity_{ring}")
}
