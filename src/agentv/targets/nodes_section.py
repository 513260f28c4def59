"""How a run uses nodes: the `nodes` section of the configuration."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

_strict = ConfigDict(defer_build=True, frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class TlsFiles(BaseModel):
    """Files for mutual TLS with the scheduler and the nodes of a cluster."""

    model_config = _strict

    ca: str = Field(description="Certificate of the authority that signs the certificates of the cluster (PEM).")
    cert: str = Field(description="Certificate of the driver (PEM).")
    key: str = Field(description="Private key of the driver (PEM).")


class NodesModel(BaseModel):
    """The `nodes` section of the configuration."""

    model_config = _strict

    on: str | None = Field(None, description="Nodes to use without `--on`, such as `tls://scheduler:8786`.")
    tls: TlsFiles | None = Field(
        None, description="Files for `tls://`, relative to the configuration. Default: the configuration of Dask."
    )
    files: Literal["ship", "shared"] = Field(
        "ship",
        description="`ship` sends the suite's repository to nodes; with `shared`, they see it under the same paths.",
    )
    max_ship_mb: float = Field(100, gt=0, description="Largest repository that is sent to nodes, in MB.")
    slots: int | None = Field(None, ge=1, description="Jobs at a time on each node. Default: twice its cores.")
    silence_seconds: float = Field(
        30, ge=0.5, description="Time after which a silent node is lost, and its jobs run elsewhere."
    )
    reruns: int = Field(2, ge=0, description="How often a job runs again after its node was lost.")
    dead_man_seconds: float = Field(
        60, ge=1, description="Time after which nodes end all jobs of a driver that they do not hear from."
    )
    allow_unsupervised: bool = Field(
        False, description="Use nodes that cannot supervise scripts (not Linux, or an old kernel)."
    )

    @model_validator(mode="after")
    def _dead_man_after_silence(self) -> NodesModel:
        if self.dead_man_seconds < self.silence_seconds:
            raise ValueError("`dead_man_seconds` must not be below `silence_seconds`")
        return self
