//! Warp-specialized kernels: the roles of producer and consumers, their barriers, and TMA loads.

use super::{Param, Printer, TensorMapEncoding};
use crate::grid::{Released, SharedMemory, Stmt, TensorMap, WARP};
use tvmtune_ir::dag::DType;
use tvmtune_ir::poly::Poly;
use tvmtune_schedule::nest::any;

impl Printer<'_> {
    /// Prints the body, by roles if the kernel is warp-specialized.
    pub(super) fn roles(&mut self) {
        let kernel = self.kernel;
        if kernel.producer.is_empty() {
            self.registers();
            self.fragments();
            self.block(&kernel.body);
            return;
        }
        self.init_barriers();
        let threads = kernel.threads;
        let granted = kernel.redistributed_registers();
        self.open(&format!("if (threadIdx.x >= {threads})"));
        if let Some((_, few)) = granted {
            self.line(&format!("registers_shrink<{few}>();"));
        }
        self.open(&format!("if (threadIdx.x == {threads})"));
        self.pipeline_states();
        self.block(&kernel.producer);
        self.close();
        self.close();
        self.open("else");
        if let Some((many, _)) = granted {
            self.line(&format!("registers_grow<{many}>();"));
        }
        self.pipeline_states();
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
    fn init_barriers(&mut self) {
        let kernel = self.kernel;
        self.names.reserve("barriers");
        self.line("u64* const barriers = reinterpret_cast<u64*>(shared);");
        let cluster = kernel.cluster();
        let warps = kernel.threads.div_ceil(WARP) * cluster;
        self.open("if (threadIdx.x == 0)");
        for pipeline in &kernel.circular_buffers {
            let (full, empty) = (pipeline.barriers / 8, pipeline.barriers / 8 + pipeline.n_stages);
            let depth = pipeline.n_stages;
            self.open(&format!("for (int n = 0; n < {depth}; ++n)"));
            self.line(&format!("mbarrier_init(&barriers[{full} + n], 1);"));
            self.line(&format!("mbarrier_init(&barriers[{empty} + n], {warps});"));
            self.close();
        }
        self.line("mbarrier_fence_init();");
        self.close();
        self.line(if cluster > 1 { "cluster_sync();" } else { "__syncthreads();" });
    }

    /// Declares the pipeline state of a role: stage and phase of each circular buffer.
    fn pipeline_states(&mut self) {
        let kernel = self.kernel;
        for (n, pipeline) in kernel.circular_buffers.iter().enumerate() {
            let name = self.names.enter(pipeline.stage, "stage");
            self.line(&format!("Index {name} = 0;"));
            self.names.reserve(&phase(n));
            self.line(&format!("u32 {} = 0;", phase(n)));
        }
    }

    fn stage(&self, pipeline: usize) -> String {
        self.poly(&Poly::var(self.kernel.circular_buffers[pipeline].stage)).text
    }

    /// Returns the full barrier of the stage.
    fn full(&self, pipeline: usize) -> String {
        format!(
            "&barriers[{} + {}]",
            self.kernel.circular_buffers[pipeline].barriers / 8,
            self.stage(pipeline)
        )
    }

    /// Returns the empty barrier of a stage.
    fn empty(&self, pipeline: usize, stage: &str) -> String {
        let it = &self.kernel.circular_buffers[pipeline];
        format!("&barriers[{} + {stage}]", it.barriers / 8 + it.n_stages)
    }

    pub(super) fn producer_acquire(&mut self, pipeline: usize) {
        let (empty, full) = (self.empty(pipeline, &self.stage(pipeline)), self.full(pipeline));
        // New barriers count as empty.
        self.line(&format!("mbarrier_wait({empty}, {} ^ 1);", phase(pipeline)));
        self.line(&format!(
            "mbarrier_expect({full}, {});",
            self.kernel.circular_buffers[pipeline].stage_bytes
        ));
    }

    pub(super) fn consumer_wait(&mut self, pipeline: usize) {
        let full = self.full(pipeline);
        self.line(&format!("mbarrier_wait({full}, {});", phase(pipeline)));
    }

    pub(super) fn consumer_release(&mut self, pipeline: usize, released: Released) {
        let (stage, last) =
            (self.stage(pipeline), self.kernel.circular_buffers[pipeline].n_stages - 1);
        let stage = match released {
            Released::Previous => format!("({stage} == 0 ? {last} : {stage} - 1)"),
            Released::Current => stage,
        };
        let empty = self.empty(pipeline, &stage);
        if self.is_read_by_lanes(pipeline) {
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

    /// Returns whether lanes read the stages of a circular buffer on their own; else MMA instructions do, for which
    /// warps wait as a whole.
    fn is_read_by_lanes(&self, pipeline: usize) -> bool {
        let maps = &self.kernel.tensor_maps;
        let is_plain = |it: usize| self.grid.buffer(maps[it].to).scope.swizzle().is_none();
        any(&self.kernel.producer, &|it| {
            matches!(it, Stmt::TmaLoad { tensor_map, pipeline: of, .. }
                if *of == pipeline && is_plain(*tensor_map))
        })
    }

    pub(super) fn advance_stage(&mut self, pipeline: usize) {
        let (stage, depth) =
            (self.stage(pipeline), self.kernel.circular_buffers[pipeline].n_stages);
        self.open(&format!("if (++{stage} == {depth})"));
        self.line(&format!("{stage} = 0;"));
        self.line(&format!("{} ^= 1;", phase(pipeline)));
        self.close();
    }

    pub(super) fn tma_load(
        &mut self,
        map: usize,
        position: &Poly,
        coordinates: &[Poly],
        pipeline: usize,
    ) {
        let to = self.names.buffer(self.kernel.tensor_maps[map].to);
        let (position, full) = (self.poly(position).text, self.full(pipeline));
        let coordinate = |it: &Poly| format!("int({})", self.poly(it).text);
        // The innermost first.
        let coordinates: Vec<String> = coordinates.iter().rev().map(coordinate).collect();
        let blocks = match self.kernel.tensor_maps[map].is_multicast {
            true => Some((1_u32 << self.kernel.cluster()) - 1),
            false => None,
        };
        let (map, coordinates) = (self.tensor_map_name(map), coordinates.join(", "));
        self.line(&match blocks {
            None => format!("tensor_load(&{to}[{position}], {map}, {full}, {coordinates});"),
            Some(all) => {
                format!("tensor_multicast(&{to}[{position}], {map}, {full}, {all}, {coordinates});")
            }
        });
    }

    pub(super) fn tensor_map_name(&self, map: usize) -> String {
        let tensor = self.kernel.tensor_maps[map].tensor;
        format!("map_{map}_{}", self.names.buffer(tensor))
    }

    /// Returns the tensor maps that the kernel is passed, of those of the unit.
    pub(super) fn tensor_map_params(&self) -> impl Iterator<Item = Param> + use<> {
        (self.n_tensor_maps..self.n_tensor_maps + self.kernel.tensor_maps.len())
            .map(Param::TensorMap)
    }

    /// Returns the encoding of a tensor map.
    pub(super) fn encoded(&self, map: &TensorMap) -> TensorMapEncoding {
        let buffer = self.grid.buffer(map.tensor);
        let mut strides = Vec::new();
        let mut bytes = Poly::constant(buffer.dtype.bytes() as i64);
        for extent in buffer.shape.iter().skip(1).rev() {
            bytes = bytes * extent.clone();
            strides.push(bytes.clone());
        }
        let target = self.grid.buffer(map.to).scope;
        let SharedMemory { swizzle, is_rounded, .. } = target.shared().unwrap_or_default();
        let swizzle = match swizzle {
            None => 0,
            Some(32) => 1,
            Some(64) => 2,
            Some(_) => 3,
        };
        TensorMapEncoding {
            tensor: map.tensor,
            element: if is_rounded { TF32 } else { element(buffer.dtype) },
            extents: buffer.shape.iter().rev().cloned().collect(),
            strides,
            // A box is given by all that it reaches over.
            box_dims: map
                .box_extents
                .iter()
                .zip(&map.element_strides)
                .rev()
                .map(|(n, by)| (n * by) as u32)
                .collect(),
            element_strides: map.element_strides.iter().rev().map(|it| *it as u32).collect(),
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
        DType::U32 => 2,
        DType::I32 => 3,
        DType::I64 => 5,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::Bf16 => 9,
    }
}

/// Returns the name of the phase bit of a circular buffer.
fn phase(pipeline: usize) -> String {
    format!("phase_{pipeline}")
}
