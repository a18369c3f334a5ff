import type { Model, ModelRequest, ModelResponse } from "../model.ts";
export class DemoModel implements Model {
  readonly name: string;
  readonly contextWindow = 200_000;
  constructor(name: string) {
    this.name = name;
  }
  complete(_request: ModelRequest): Promise<ModelResponse> {
    throw new Error("soon");
  }
}
